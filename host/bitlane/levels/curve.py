"""The convex curve whose trapezoids are the cost of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """F(t), half the weighted sum of `|t - x|` over all values x, at the candidates for levels.

    The cost of an interval, the weighted sum of `(b - x)(x - a)` over the values inside, is twice what the trapezoid
    rule adds to the integral of the convex F: `(b - a)(F(a) + F(b)) - 2 (integral of F from a to b)`. (Integrate by
    parts twice.) A linear function added to F changes no cost. So it is chosen that F is 0 where its slope crosses
    0, and sums go outwards from there: a long tail does not take the digits of the middle.

    Members
    -------
    x: float64 [m], ascending candidates.
    height: float64 [m], F there.
    area: float64 [m], twice the integral of F from the middle.
    """

    x: Floats
    height: Floats
    area: Floats

    def at(self, candidates: NDArray[np.integer]) -> Curve:
        """The same curve with fewer candidates."""
        return Curve(self.x[candidates], self.height[candidates], self.area[candidates])

    def costs(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Floats:
        """What intervals from `x[low]` to `x[high]` cost, each, to the digits that differences of areas leave."""
        width = self.x[high] - self.x[low]
        costs: Floats = width * (self.height[low] + self.height[high]) - (self.area[high] - self.area[low])
        return costs

    def cost(self, path: Sequence[int]) -> float:
        """What the levels `x[path]` cost."""
        nodes = np.asarray(path)
        return float(np.sum(self.costs(nodes[:-1], nodes[1:])))

    def least(self) -> float:
        """What all candidates cost as levels."""
        heights = self.height[:-1] + self.height[1:]
        return float(np.dot(np.diff(self.x), heights) - (self.area[-1] - self.area[0]))


def outwards(rise: Floats, middle: int) -> Floats:
    """Running sums [m] of `rise` [m - 1] that are 0 at `middle`, in as many bits as the machine has."""
    sums = np.zeros(len(rise) + 1)
    np.cumsum(rise[middle:], dtype=np.longdouble, out=sums[middle + 1 :])
    np.cumsum(rise[:middle][::-1], dtype=np.longdouble, out=sums[:middle][::-1])
    np.negative(sums[:middle], out=sums[:middle])
    return sums
