"""Few candidates in almost linear time: merging what costs least, with a guarantee."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .curve import Curve


def merge(curve: Curve, intervals: int) -> NDArray[np.int64]:
    """At most 4 `intervals` intervals that cost at most twice what the best `intervals` intervals do.

    ZipML, section 3.1, "2-Approximation in Almost-Linear Time", after Acharya et al. 2015: starts with an interval
    between any two neighbours; merges pairs of neighbouring intervals, all but the 2k - 1 pairs that would cost
    most, until 4k intervals are left. Of these pairs at least k have no level of the optimum inside and cost in sum
    no more than the optimum. A merged pair with such a level inside costs no more than any of them, and there are
    fewer than k of that kind; the other intervals together cost no more than the optimum.

    Parameters
    ----------
    curve: m candidates, which cost nothing if all are levels.
    intervals: k, at least 1.

    Returns
    -------
    int64 [at most 4k + 1], the levels' places, ascending, from 0 to m - 1. O(m) time and memory.
    """
    levels = np.arange(len(curve.x))
    while len(levels) - 1 > 4 * intervals:
        cost = curve.costs(levels[:-2:2], levels[2::2])
        merged = len(cost) - (2 * intervals - 1)
        kept = np.ones(len(levels), bool)
        kept[1 + 2 * np.argpartition(cost, merged)[:merged]] = False
        levels = levels[kept]
    return levels
