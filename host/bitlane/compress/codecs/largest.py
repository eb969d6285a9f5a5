"""The largest magnitudes of a vector, exactly, most of it read once: a sample gives a threshold, a sort does the rest.

DGC (Lin et al., 2018, section 5) samples in this way, and searches what exceeds the threshold again.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from .select import Places, Values, select

SAMPLE = 4096  # values at least
STRIDE = 256  # of a long vector, one of so many is sampled
LEAST = float(np.finfo(np.float32).smallest_subnormal)


def largest(values: Values, count: int) -> Places:
    """Places int64, rising, of the `count` largest magnitudes; of equals the first. Zeros are never among them.

    Parameters
    ----------
    values: float32 [n], finite.
    count: fewer come where fewer values are not zero.
    """
    if count <= 0 or not len(values):
        return np.zeros(0, np.int64)
    at = max(sampled_threshold(values, count), LEAST)
    places, found = select(values, at)
    if len(places) < count and at > LEAST:
        places, found = select(values, LEAST)
    if len(places) <= count:
        return places
    magnitudes = np.abs(found)
    last = np.partition(magnitudes, len(magnitudes) - count)[len(magnitudes) - count]
    chosen = magnitudes > last
    equals = np.flatnonzero(magnitudes == last)
    chosen[equals[: count - int(chosen.sum())]] = True
    kept: Places = places[chosen]
    return kept


def sampled_threshold(values: Values, count: int) -> float:
    """What a little more than `count` of the magnitudes of float32 [n > 0] reach, going by a sample of them.

    Three standard deviations of the sample more, so that fewer are rare.
    """
    sample = np.abs(values[:: max(1, min(STRIDE, len(values) // SAMPLE))])
    expected = count * len(sample) / len(values)
    rank = min(len(sample), int(expected + 3 * sqrt(expected)) + 1)
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank])
