"""Few candidates in almost linear time: merge the cheapest intervals, with a guarantee."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .curve import CostCurve


def merge(curve: CostCurve, intervals: int) -> NDArray[np.int64]:
    """Return at most 4 `intervals` intervals that cost at most twice as much as the best `intervals` intervals.

    ZipML, section 3.1, "2-Approximation in Almost-Linear Time", after Acharya et al. 2015. It starts with an interval
    between any two neighbours, and merges pairs of neighbouring intervals, except for the 2k - 1 most expensive pairs,
    until 4k intervals are left. Of these pairs, at least k have no level of the optimum inside, and together cost at
    most as much as the optimum. A merged pair with such a level inside costs at most as much as any of them, and there
    are fewer than k such pairs. The other intervals together cost at most as much as the optimum.

    Parameters
    ----------
    curve : CostCurve
        m candidates, which cost nothing if all are levels.
    intervals : int
        k, at least 1.

    Returns
    -------
    int64 array [at most 4k + 1]
        Indices of the levels, ascending, from 0 to m - 1. Takes O(m) time and memory.
    """
    levels = np.arange(len(curve.x))
    while len(levels) - 1 > 4 * intervals:
        cost = curve.costs(levels[:-2:2], levels[2::2])
        merged = len(cost) - (2 * intervals - 1)
        retained = np.ones(len(levels), bool)
        retained[1 + 2 * np.argpartition(cost, merged)[:merged]] = False
        levels = levels[retained]
    return levels
