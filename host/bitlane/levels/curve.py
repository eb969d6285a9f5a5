"""The convex curve whose trapezoids give the cost of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CostCurve:
    """F(t), half the weighted sum of ``|t - x|`` over all values x, at the candidates for levels.

    The cost of an interval, the weighted sum of ``(b - x)(x - a)`` over the values inside, is twice the excess of the
    trapezoid rule over the integral of the convex F: ``(b - a)(F(a) + F(b)) - 2 (integral of F from a to b)``
    (integrate by parts twice). A linear function added to F changes no cost. So F is shifted to 0 where its slope
    crosses 0, and sums go outwards from there; a long tail then costs no digits in the middle.

    Attributes
    ----------
    x : float64 array [m]
        Candidates, ascending.
    height : float64 array [m]
        F at the candidates.
    area : float64 array [m]
        Twice the integral of F from the middle.
    """

    x: Floats
    height: Floats
    area: Floats

    def at(self, candidates: NDArray[np.integer]) -> CostCurve:
        """Return the same curve with fewer candidates."""
        return CostCurve(self.x[candidates], self.height[candidates], self.area[candidates])

    def costs(self, low: NDArray[np.integer], high: NDArray[np.integer]) -> Floats:
        """Return the cost of each interval from ``x[low]`` to ``x[high]``, to the precision of differences of areas."""
        width = self.x[high] - self.x[low]
        costs: Floats = width * (self.height[low] + self.height[high]) - (self.area[high] - self.area[low])
        return costs

    def cost(self, path: Sequence[int]) -> float:
        """Return the cost of the levels ``x[path]``."""
        nodes = np.asarray(path)
        return float(np.sum(self.costs(nodes[:-1], nodes[1:])))

    def least(self) -> float:
        """Return the cost if all candidates are levels."""
        heights = self.height[:-1] + self.height[1:]
        return float(np.dot(np.diff(self.x), heights) - (self.area[-1] - self.area[0]))


def outwards(rise: Floats, middle: int) -> Floats:
    """Return running sums [m] of `rise` [m - 1] that are 0 at `middle`, in the longest float of the machine."""
    sums = np.zeros(len(rise) + 1)
    np.cumsum(rise[middle:], dtype=np.longdouble, out=sums[middle + 1 :])
    np.cumsum(rise[:middle][::-1], dtype=np.longdouble, out=sums[:middle][::-1])
    np.negative(sums[:middle], out=sums[:middle])
    return sums
