"""Hessians of many models from some of the rows, drawn in proportion to the curvature of the loss.

P. Xu, J. Yang, F. Roosta-Khorasani, C. Re, M. Mahoney, "Sub-sampled Newton methods with non-uniform sampling",
NIPS 2016. A pass copies the codes of the rows that the pass before it chose, so that a Hessian needs no read of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    def moments(self, codes: Codes, curvature: Singles) -> Floats:
        """Return the weighted products of the columns of codes and of a column of ones, float64 [m + 1, m + 1].

        Parameters
        ----------
        codes : int8 array [kept, m]
        curvature : float32 array [rows]
        """
        weights = curvature[self.kept] / self.shares
        total = float(weights.sum(dtype=np.float64))
        columns = codes.shape[1]
        found = np.zeros((columns + 1, columns + 1))
        if total <= 0:
            return found
        means = (weights @ codes.astype(np.float32)).astype(np.float64) / total
        scaled = (codes - means.astype(np.float32)) * np.sqrt(weights)[:, None]
        found[:-1, :-1] = scaled.T @ scaled
        ones = np.append(means, 1.0)
        return np.asarray(found + total * np.outer(ones, ones))
