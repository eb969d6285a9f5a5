"""Exact top-k by magnitude in about one pass over the vector: a sample gives a threshold, a partial sort the rest.

The method is that of DGC (Lin et al., 2018, section 5): sample, select by threshold, then search the selection.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from .select import Indices, Values, select

SAMPLE = 4096  # least number of sampled values
STRIDE = 256  # of a long vector, every 256th value is sampled
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def largest(values: Values, count: int) -> Indices:
    """Return the indices of the `count` largest magnitudes.

    Parameters
    ----------
    values : float32 [n]
        Finite.
    count : int
        How many to return. Zeros are never returned, so the result is shorter if fewer values are nonzero.

    Returns
    -------
    int64 [<= count]
        Ascending. Of equal magnitudes the first are taken.
    """
    if count <= 0 or not len(values):
        return np.zeros(0, np.int64)
    threshold = max(sampled_threshold(values, count), SMALLEST)
    indices, found = select(values, threshold)
    if len(indices) < count and threshold > SMALLEST:
        indices, found = select(values, SMALLEST)
    if len(indices) <= count:
        return indices
    magnitudes = np.abs(found)
    last = np.partition(magnitudes, len(magnitudes) - count)[len(magnitudes) - count]
    chosen = magnitudes > last
    ties = np.flatnonzero(magnitudes == last)
    chosen[ties[: count - int(chosen.sum())]] = True
    selected: Indices = indices[chosen]
    return selected


def sampled_threshold(values: Values, count: int) -> float:
    """Estimate from a sample a magnitude that slightly more than `count` of the values float32 [n > 0] reach.

    The estimate allows for three standard deviations of the sample, so that fewer than `count` are rare.
    """
    sample = np.abs(values[:: max(1, min(STRIDE, len(values) // SAMPLE))])
    expected = count * len(sample) / len(values)
    rank = min(len(sample), int(expected + 3 * sqrt(expected)) + 1)
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank])
