"""Hessians of many models from some of the rows, drawn in proportion to the curvature of the loss.

P. Xu, J. Yang, F. Roosta-Khorasani, C. Re, M. Mahoney, "Sub-sampled Newton methods with non-uniform sampling",
NIPS 2016. A pass copies the codes of the rows that the pass before it chose, so that a Hessian needs no read of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Codes, Floats

from .gram import GramSum
from .reference_pass import Singles

ROWS_A_COLUMN = 8  # of a sample, at least
PRODUCTS = 64  # of a sample: the Gram matrix takes about as long as a pass
ENOUGH_A_COLUMN = 4_096  # rows of a sample, whose Hessian is off by some 2 %
GROWTH = 1.25  # of a sample after a step that did not help
EVEN_SHARE = 0.1  # of a sample, drawn regardless of curvatures, which may rise
REPEATED = 4  # rows, each as often as it is repeated, for each of as many even weights as say the same


def sample_size(rows: int, columns: int) -> int:
    """Return how many rows the first Hessian is made of."""
    most = min(rows, ENOUGH_A_COLUMN * columns)
    return min(most, max(ROWS_A_COLUMN * columns, PRODUCTS * rows // max(1, columns)))


class HessianSample:
    """Which rows the Hessians are made of.

    Attributes
    ----------
    kept : int array [kept]
        Numbers of rows, rising.
    shares : float32 array [kept]
        Probability with which each of these rows was kept.
    """

    def __init__(self, rows: int, columns: int, threads: int = 1, seed: int = 0):
        self.rows, self._threads = rows, threads
        self.wanted = sample_size(rows, columns)
        self._random = np.random.default_rng(seed)
        self.kept, self.shares = np.arange(rows), np.ones(rows, np.float32)

    kept: NDArray[np.intp]
    shares: Singles

    def grow(self) -> None:
        """Choose more rows from now on."""
        self.wanted = min(self.rows, int(GROWTH * self.wanted))

    def draw(self, curvatures: Sequence[Singles]) -> None:
        """Choose rows for some models, from the curvatures of all rows in each of them."""
        if self.wanted >= self.rows:
            return
        share = np.zeros(self.rows, np.float32)
        for of_model in curvatures:
            total = float(of_model.sum(dtype=np.float64))
            if total > 0:
                np.maximum(share, of_model / np.float32(total), out=share)
        share *= np.float32(self.wanted * (1 - EVEN_SHARE) / max(float(share.sum(dtype=np.float64)), 1e-300))
        share += np.float32(self.wanted * EVEN_SHARE / self.rows)
        self.kept = np.flatnonzero(self._random.random(self.rows, dtype=np.float32) < share)
        self.shares = np.minimum(share[self.kept], np.float32(1))

    def weights(self, curvatures: Sequence[Singles]) -> Iterator[Singles]:
        """Yield the weights [kept] of the rows that were kept, for models with curvatures [rows]."""
        for of_rows in curvatures:
            yield of_rows[self.kept] / self.shares

    def moments(self, codes: Codes, weights: Singles) -> Floats:
        """Return the weighted products of the columns of codes [kept, m] and of a column of ones, [m + 1, m + 1].

        Of a sample, each row counts as often as a whole number says, which is its weight on average: so the sums are
        exact integers, and take a third of the time.
        """
        if len(codes) == self.rows:
            return _weighted(codes, weights)
        total = float(weights.sum(dtype=np.float64))
        if total == 0:
            return np.zeros((codes.shape[1] + 1,) * 2)
        effective = total**2 / float(np.square(weights, dtype=np.float64).sum())
        wanted = min(len(weights), REPEATED * effective)
        times = (weights * np.float32(wanted / total) + self._random.random(len(weights), np.float32)).astype(np.intp)
        sums = GramSum(codes.shape[1], self._threads)
        sums.add(np.repeat(codes, times, axis=0))
        return _bordered(sums.matrix(), sums.sums(), sums.rows) * (total / max(1, sums.rows))


def _weighted(codes: Codes, weights: Singles) -> Floats:
    center = codes.mean(axis=0, dtype=np.float32)
    centered = codes - center
    scaled = centered * np.sqrt(weights)[:, None]
    total = float(weights.sum(dtype=np.float64))
    ones = np.append(center.astype(np.float64), 1.0)
    sums = np.append((weights @ centered).astype(np.float64), 0.0)  # about the center
    found = _bordered(scaled.T @ scaled, 0.0, 0.0)
    return found + np.outer(sums, ones) + np.outer(ones, sums) + total * np.outer(ones, ones)


def _bordered(products: NDArray[Any], sums: NDArray[Any] | float, total: float) -> Floats:
    found = np.empty((len(products) + 1,) * 2)
    found[:-1, :-1], found[-1, :-1], found[:-1, -1], found[-1, -1] = products, sums, sums, total
    return found
