"""Values in ascending bins, and exact results from their sums: the cost of levels, and the curve of this cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .curve import CostCurve, Floats, outwards


@dataclass(frozen=True)
class Bins:
    """N values in m ascending bins. Levels are chosen among the first values of the bins.

    Attributes
    ----------
    first : float64 array [m]
        Smallest value of each bin; in the last bin the largest value of all.
    weight : float64 array [m]
        Sum of the weights of the values.
    offset, square : float64 array [m] or None
        Weighted sums of ``x - first`` and of its square; None if all are 0, because each bin has one value.
    rounding_error : float
        Bound of the total rounding error of the offsets.
    """

    first: Floats
    weight: Floats
    offset: Floats | None = None
    square: Floats | None = None
    rounding_error: float = 0.0

    def curve(self) -> CostCurve:
        """Return the curve at the first values. It is exact for any values inside the bins, and takes O(m)."""
        gaps = np.diff(self.first)
        slope = np.cumsum(self.weight)
        slope -= slope[-1] / 2
        rise = slope[:-1]
        rise *= gaps
        if self.offset is not None:
            rise -= self.offset[:-1]
        middle = int(np.searchsorted(rise >= 0, True))
        height = outwards(rise, middle)
        del slope, rise
        gaps *= height[:-1] + height[1:]
        if self.offset is not None and self.square is not None:
            gaps -= np.diff(self.first) * self.offset[:-1] - self.square[:-1]
        return CostCurve(self.first, height, outwards(gaps, middle))

    def cost(self, path: NDArray[np.int64]) -> float:
        """Return the weighted sum of ``(b - x)(x - a)`` with levels at ``first[path]``, exact except for rounding."""
        steps = np.diff(path)
        first = self.first[:-1]
        below = np.repeat(self.first[path[:-1]], steps)
        np.subtract(first, below, out=below)
        above = np.repeat(self.first[path[1:]], steps)
        above -= first
        within = 0.0
        if self.offset is not None and self.square is not None:
            within = float(np.sum(self.offset[:-1] * (above - below) - self.square[:-1]))
        above *= below
        above *= self.weight[:-1]
        return float(np.sum(above)) + within

    def means(self) -> Bins:
        """Return bins with the same weights, each at its mean, and the smallest and largest value with weight 0.

        Its curve is nowhere above the curve of these bins. Its cost, without the variance inside the bins, is at most
        the cost.
        """
        if self.offset is None:
            return self
        full = self.weight > 0
        means = self.first[full] + self.offset[full] / self.weight[full]
        np.minimum(means, self.first[-1], out=means)
        first = np.concatenate([self.first[:1], np.maximum.accumulate(means), self.first[-1:]])
        return Bins(first, np.concatenate([[0.0], self.weight[full], [0.0]]))

    def variance(self) -> float:
        """Return the weighted sum of squared distances to the means of the bins."""
        if self.offset is None or self.square is None:
            return 0.0
        full = self.weight > 0
        return float(np.sum(self.square[full] - self.offset[full] ** 2 / self.weight[full]))
