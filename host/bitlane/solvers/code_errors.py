"""What values are off their codes in a sample of rows, and what that makes of means and gradients.

Most values of a skewed column lie in one interval, and not around its middle. Then the mean of the codes is off that of
the values, an intercept is off with it, and errors of codes and values are correlated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import Floats
from bitlane.encoded.table import EncodedTable

from .least_squares import CenteredMoments, LeastSquares
from .moments import Moments

# A sample has so many values, but so many rows at least and at most.
VALUES, LEAST, MOST = 1 << 18, 1 << 10, 1 << 16


@dataclass(frozen=True, eq=False)
class CodeErrors:
    """Some rows of a table, and their codes.

    Attributes
    ----------
    rows : int array [s]
        Numbers of the rows.
    codes, off : float64 arrays [s, m]
        What the codes stand for, and the values less that, in user units.
    complete : bool
        Whether these are all rows of the table.
    """

    rows: NDArray[np.intp]
    codes: Floats
    off: Floats
    complete: bool

    @classmethod
    def of(cls, table: Any, rows: EncodedTable) -> CodeErrors:
        """Return those of a table [rows, n] that was encoded, or of the codes of a table that stores more bits."""
        count = len(table)
        size = min(count, max(LEAST, min(VALUES // len(rows.column_codes.active), MOST)))
        chosen = np.sort(np.random.default_rng(0).choice(count, size, replace=False))
        coded = rows[chosen].coded
        codes = np.concatenate([coded.scale.values(block.codes) for block in coded.blocks()])
        values = np.asarray(table[chosen], np.float64)[:, rows.column_codes.active]
        return cls(chosen, codes, values - codes, len(chosen) == count)

    def moved(self, moments: Moments, weights: Floats | None) -> Moments:
        """Return moments of codes about the means of the values."""
        return replace(moments, center=moments.center + self._shares(weights) @ self.off)

    def mean_variances(self, v: Floats, weights: Floats | None) -> Floats:
        """Return the variance [K] that the sample leaves to the mean score of all rows, by coefficients [m, K]."""
        if self.complete:
            return np.zeros(v.shape[1])
        shares, scores = self._shares(weights), self.off @ v
        variance = np.maximum(shares @ (scores - shares @ scores) ** 2, scores.var(axis=0))  # few rows may have weights
        return np.asarray(variance * (shares @ shares if shares.any() else 1.0))

    def gradients(
        self, solution: LeastSquares, centered: CenteredMoments, targets: Floats, weights: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return half of the negative gradient of the values, less that of the moved codes, by two halves of the rows.

        Parameters
        ----------
        solution : LeastSquares
        centered : CenteredMoments
            Those of the moved codes.
        targets : float64 array [rows, K]
        weights : float64 array [rows], optional

        Returns
        -------
        two float64 arrays [m, K], each for all rows; the same array twice if the rows are complete
        """
        shift = self._shares(weights) @ self.off
        parts = [slice(None)] if self.complete else [slice(0, None, 2), slice(1, None, 2)]
        found = [self._gradient(some, shift, solution, centered, targets, weights) for some in parts]
        return found[0], found[-1]

    def _gradient(
        self,
        some: slice,
        shift: Floats,
        solution: LeastSquares,
        centered: CenteredMoments,
        targets: Floats,
        weights: Floats | None,
    ) -> Floats:
        part = replace(self, rows=self.rows[some], codes=self.codes[some], off=self.off[some])
        values, v = part.codes + part.off - centered.mean, solution.coefficients
        moved = part.codes + shift - centered.mean
        residuals = targets[part.rows] - solution.intercepts - centered.mean @ v
        of_rows = part._shares(weights)[:, None]
        difference = values.T @ (of_rows * (residuals - values @ v)) - moved.T @ (of_rows * (residuals - moved @ v))
        return np.asarray(centered.moments.weight * difference)

    def _shares(self, weights: Floats | None) -> Floats:
        """Return the weights of the rows over their sum; 0 where they have none."""
        of_rows = np.ones(len(self.rows)) if weights is None else weights[self.rows]
        return np.asarray(of_rows / max(float(of_rows.sum()), np.finfo(np.float64).tiny))
