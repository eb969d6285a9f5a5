"""The lightest path of so many intervals: a search for the penalty at which it is the lightest of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .curve import Curve
from .path import lightest_path


@dataclass(frozen=True)
class Found:
    """What `search` returns.

    Members
    -------
    path: intervals + 1 candidates, from the first to the last.
    penalty: one at which the path is the lightest, 0 where every candidate is taken.
    bound: what no path of so many intervals costs less than, but for rounding: this path's cost.
    """

    path: Sequence[int]
    penalty: float
    bound: float


def search(curve: Curve, intervals: int, penalty: float | None = None) -> Found:
    """The path of `intervals` intervals that costs least.

    The least cost is convex in the number of intervals. A lightest path at some penalty is the best of its number;
    two of them, one with too few intervals and one with too many, bracket the penalty. The next one tried is where
    both weigh the same, or what a cost that falls as 1/intervals^2 suggests. Where both stay lightest at that
    penalty, a path between them is spliced.

    Parameters
    ----------
    curve: m candidates; m > intervals.
    penalty: the first to try, where one is known.
    """
    last = len(curve.x) - 1
    few: Sequence[int] = [0, last]
    many: Sequence[int] = range(last + 1)
    cost_few, cost_many = curve.cost(few), curve.least()
    if intervals == 1:
        return Found(few, cost_few, cost_few)  # two intervals would save less than that
    if intervals == last:
        return Found(many, 0.0, cost_many)
    miss = np.inf
    low, high = 0.0, np.inf  # penalties with too many intervals, and with too few
    while True:
        guessed = penalty is not None and low < penalty < high
        if penalty is None or not guessed:
            penalty = (cost_few - cost_many) / (len(many) - len(few))
        if penalty <= 0:  # what more intervals save is below rounding
            return Found(_between(few, many, intervals), 0.0, cost_many)
        path, weight = lightest_path(curve, penalty)
        count = len(path) - 1
        if count == intervals:
            return Found(path, penalty, weight - intervals * penalty)
        between = len(few) < len(path) < len(many)
        if not guessed and not between:
            return Found(_between(few, many, intervals), penalty, weight - intervals * penalty)
        if count < intervals:
            high = penalty
            if between:
                few, cost_few = path, weight - count * penalty
        else:
            low = penalty
            if between:
                many, cost_many = path, weight - count * penalty
        nearer = abs(count - intervals) <= miss / 2
        miss = abs(count - intervals)
        penalty = penalty * (count / intervals) ** 3 if nearer or not guessed else None


def _between(few: Sequence[int], many: Sequence[int], intervals: int) -> Sequence[int]:
    """Of two lightest paths at one penalty, the first steps of one and the last of the other: lightest too.

    Where a step of `many` lies within one of `few`, their starts and ends can be crossed, and by the quadrangle
    inequality neither of the two crossed paths weighs more.
    """
    shift = intervals + 1 - len(few)
    at = next(t for t in range(len(few) - 1) if few[t + 1] >= many[t + 1 + shift])
    return [*many[: at + shift + 1], *few[at + 1 :]]
