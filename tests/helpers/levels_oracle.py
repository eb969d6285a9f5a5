"""The textbook's programme for the best levels, in O(k N^2): slow, without a trick, and no code of the package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def best_costs(values: Floats, intervals: int, weights: Floats | None = None) -> Floats:
    """The least cost with 1, 2, ... `intervals` intervals (ZipML, section 3.1): T(k, m) = min T(k-1, j) + V(j, m)."""
    order = np.argsort(values)
    x = np.asarray(values, np.longdouble)[order]  # so that what cancels is not missed
    w = np.ones(len(x)) if weights is None else weights[order]
    steps = np.empty((len(x), len(x)))  # [m, j]: the cost of the interval from x[j] to x[m]
    for j in range(len(x)):
        away = x[j:] - x[j]
        steps[j:, j] = away * np.cumsum(w[j:] * away) - np.cumsum(w[j:] * away**2)
    best = steps[:, 0].copy()
    costs = [best[-1]]
    for _ in range(intervals - 1):
        best = np.array([(best[: m + 1] + steps[m, : m + 1]).min() for m in range(len(x))])
        costs.append(best[-1])
    return np.array(costs)


def cost_of(levels: Floats, values: Floats, weights: Floats | None = None) -> float:
    """The sum of weighted (b - x)(x - a), value by value."""
    x = np.asarray(values, np.float64)
    above = np.clip(np.searchsorted(levels, x), 1, len(levels) - 1)
    each = (levels[above] - x) * (x - levels[above - 1])
    assert (each >= 0).all()
    return float(np.sum(each if weights is None else weights * each))
