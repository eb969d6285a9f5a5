"""The lightest path over candidate levels, with a penalty for each step: the kernel of all methods."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import compiled

from .curve import CostCurve, Floats

Indices = NDArray[np.int32]


def lightest_path(curve: CostCurve, penalty: float) -> tuple[list[int], float]:
    """Return the levels that minimise their cost plus a penalty for each interval.

    The cost of intervals satisfies the quadrangle inequality: once a later start is better for level j, it stays better
    for all levels after j. A queue holds the best starts and the levels from which they are best (Galil and Park 1992,
    "Dynamic programming with convexity, concavity and sparsity").

    Parameters
    ----------
    curve : CostCurve
        m candidates.
    penalty : float
        Positive.

    Returns
    -------
    path : list of int
        From candidate 0 to m - 1.
    weight : float
        Its cost and penalties. Takes O(m log m) at worst, about O(m) for smooth data, and 20 bytes for each candidate.
    """
    count = len(curve.x)
    weight = np.zeros(count)
    parent, queue, since = np.zeros((3, count), np.int32)
    _relax(curve.x, curve.height, curve.area, penalty, weight, parent, queue, since)
    path = [count - 1]
    while path[-1]:
        path.append(int(parent[path[-1]]))
    return path[::-1], float(weight[-1])


@compiled
def _relax(
    x: Floats,
    height: Floats,
    area: Floats,
    penalty: float,
    weight: Floats,
    parent: Indices,
    queue: Indices,
    since: Indices,
) -> None:
    """Set weight and parent of each candidate. Entry e of the queue is the best start from ``since[e]`` on."""

    def through(i: int, q: int) -> float:
        """What candidate q weighs if the last step comes from i, but for the penalty."""
        reached: float = weight[i] + ((x[q] - x[i]) * (height[i] + height[q]) - (area[q] - area[i]))
        return reached

    end = len(x) - 1
    head = 0
    tail = 0
    since[0] = 1
    for j in range(1, end + 1):
        while head < tail and since[head + 1] <= j:
            head += 1
        parent[j] = queue[head]
        weight[j] = through(queue[head], j) + penalty
        while j < end:
            i = queue[tail]
            if through(j, end) >= through(i, end):
                break  # never the better start
            low = max(since[tail], j + 1)
            if through(j, low) < through(i, low):
                if tail > head:
                    tail -= 1
                    continue
                queue[tail] = j
                break
            step = 1  # i is better at low, j at end: search at ever larger distances, then halve them
            high = min(low + step, end)
            while high < end and through(j, high) >= through(i, high):
                low = high
                step *= 2
                high = min(low + step, end)
            while high - low > 1:
                middle = (low + high) // 2
                if through(j, middle) < through(i, middle):
                    high = middle
                else:
                    low = middle
            tail += 1
            queue[tail] = j
            since[tail] = high
            break
