"""Hessians of many models from some of the rows, drawn in proportion to the curvature of the loss.

P. Xu, J. Yang, F. Roosta-Khorasani, C. Re, M. Mahoney, "Sub-sampled Newton methods with non-uniform sampling",
NIPS 2016. A pass copies the codes of the rows that the pass before it chose, so that a Hessian needs no read of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Codes, Floats

from .reference_pass import Singles

ROWS_A_COLUMN = 8  # of a sample, at least
PRODUCTS = 64  # of a sample: the Gram matrix takes about as long as a pass
EVEN_SHARE = 0.1  # of a sample, drawn regardless of curvatures, which may rise


class HessianSample:
    """Which rows the Hessians are made of.

    Attributes
    ----------
    kept : int array [kept]
        Numbers of rows, rising.
    shares : float32 array [kept]
        Probability with which each of these rows was kept.
    """

    def __init__(self, rows: int, columns: int, seed: int = 0):
        self.rows = rows
        self.wanted = min(rows, max(ROWS_A_COLUMN * columns, PRODUCTS * rows // max(1, columns)))
        self._random = np.random.default_rng(seed)
        self.kept, self.shares = np.arange(rows), np.ones(rows, np.float32)

    kept: NDArray[np.intp]
    shares: Singles

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

    def moments(self, codes: Codes, curvatures: Sequence[Singles]) -> Iterator[Floats]:
        """Yield the weighted products of the columns of codes and of a column of ones, float64 [m + 1, m + 1].

        Parameters
        ----------
        codes : int8 array [kept, m]
        curvatures : sequence of float32 arrays [rows]
            One a model.
        """
        center = codes.mean(axis=0, dtype=np.float32)
        centered = codes - center
        ones = np.append(center.astype(np.float64), 1.0)
        for of_rows in curvatures:
            weights = of_rows[self.kept] / self.shares
            scaled = centered * np.sqrt(weights)[:, None]
            found = np.zeros((len(ones), len(ones)))
            found[:-1, :-1] = scaled.T @ scaled
            sums = np.append((weights @ centered).astype(np.float64), 0.0)  # about the center
            total = float(weights.sum(dtype=np.float64))
            yield found + np.outer(sums, ones) + np.outer(ones, sums) + total * np.outer(ones, ones)
