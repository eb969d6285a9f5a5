"""Values in ascending bins, and what their sums tell exactly: the cost of levels, and the curve behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .curve import Curve, Floats, outwards


@dataclass(frozen=True)
class Bins:
    """N values in m bins, ascending; the bins' first values can be levels.

    Members
    -------
    first: float64 [m], the smallest value of each bin; the last bin's is the largest of all.
    weight: float64 [m], the sum of the values' weights.
    offset, square: float64 [m], the weighted sums of `x - first` and of its square; None where all are 0, as
        where each bin is one value.
    error: at most by how much rounding has changed the offsets, in sum.
    """

    first: Floats
    weight: Floats
    offset: Floats | None = None
    square: Floats | None = None
    error: float = 0.0

    def curve(self) -> Curve:
        """The curve at the first values: exact, whatever lies within the bins. Sums of O(m)."""
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
        return Curve(self.first, height, outwards(gaps, middle))

    def cost(self, path: NDArray[np.int64]) -> float:
        """The sum of weighted `(b - x)(x - a)`, exactly but for rounding, with levels at `first[path]`."""
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
        """The same weights, each bin's at its mean, and the smallest and the largest value without weight.

        Its F is nowhere above this one's, and its cost without the bins' own variances nowhere above the cost.
        """
        if self.offset is None:
            return self
        full = self.weight > 0
        means = self.first[full] + self.offset[full] / self.weight[full]
        np.minimum(means, self.first[-1], out=means)
        first = np.concatenate([self.first[:1], np.maximum.accumulate(means), self.first[-1:]])
        return Bins(first, np.concatenate([[0.0], self.weight[full], [0.0]]))

    def variance(self) -> float:
        """The sum of weighted squares about the bins' means."""
        if self.offset is None or self.square is None:
            return 0.0
        full = self.weight > 0
        return float(np.sum(self.square[full] - self.offset[full] ** 2 / self.weight[full]))
