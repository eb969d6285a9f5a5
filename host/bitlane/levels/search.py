"""The best path with a given number of intervals: a search for the penalty at which it is the lightest of all paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .curve import CostCurve
from .path import lightest_path


@dataclass(frozen=True)
class SearchResult:
    """The result of `search`.

    Attributes
    ----------
    path : sequence of int
        intervals + 1 candidates, from the first to the last.
    penalty : float
        A penalty at which this path is the lightest; 0 if every candidate is taken.
    bound : float
        Lower bound of the cost of all paths with this number of intervals, except for rounding: the cost of this path.
    """

    path: Sequence[int]
    penalty: float
    bound: float


def search(curve: CostCurve, intervals: int, penalty: float | None = None) -> SearchResult:
    """Return the path with `intervals` intervals and the least cost.

    The least cost is convex in the number of intervals. A lightest path for a penalty is the best path with its number
    of intervals. Two such paths, one with too few intervals and one with too many, bracket the penalty. The next
    penalty is the one at which both weigh the same, or the one that a cost falling as 1/intervals^2 suggests. If both
    stay the lightest at that penalty, a path between them is spliced together.

    Parameters
    ----------
    curve : CostCurve
        m candidates; m > intervals.
    intervals : int
    penalty : float, optional
        The first penalty to try.

    Returns
    -------
    Found
    """
    last = len(curve.x) - 1
    few: Sequence[int] = [0, last]
    many: Sequence[int] = range(last + 1)
    cost_few, cost_many = curve.cost(few), curve.least()
    if intervals == 1:
        return SearchResult(few, cost_few, cost_few)  # two intervals would save less than that
    if intervals == last:
        return SearchResult(many, 0.0, cost_many)
    miss = np.inf
    low, high = 0.0, np.inf  # penalties with too many intervals, and with too few
    while True:
        guessed = penalty is not None and low < penalty < high
        if penalty is None or not guessed:
            penalty = (cost_few - cost_many) / (len(many) - len(few))
        if penalty <= 0:  # what more intervals save is below rounding
            return SearchResult(_between(few, many, intervals), 0.0, cost_many)
        path, weight = lightest_path(curve, penalty)
        count = len(path) - 1
        if count == intervals:
            return SearchResult(path, penalty, weight - intervals * penalty)
        between = len(few) < len(path) < len(many)
        if not guessed and not between:
            return SearchResult(_between(few, many, intervals), penalty, weight - intervals * penalty)
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
    """Return a lightest path made of the first steps of one of two lightest paths and the last steps of the other.

    If a step of `many` lies inside a step of `few`, their starts and ends can be exchanged. By the quadrangle
    inequality, neither of the two new paths weighs more.
    """
    shift = intervals + 1 - len(few)
    at = next(t for t in range(len(few) - 1) if few[t + 1] >= many[t + 1 + shift])
    return [*many[: at + shift + 1], *few[at + 1 :]]
