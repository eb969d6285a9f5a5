"""Exact top-k by magnitude in about one pass over the vector: a sample gives a threshold, a partial sort the rest.

The method is that of DGC (Lin et al., 2018, section 5): sample, select by threshold, then search the selection. The
vector is searched in blocks. If too many values pass, only the largest of them are kept, and their smallest is the new
threshold, so that memory is bounded by the number of wanted values for any vector and any sample.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .select import Indices, Values, select

SAMPLE = 4096  # least number of sampled values
STRIDE = 251  # of a long vector, every 251st value is sampled; a prime, so that a matrix is sampled in all its columns
BLOCK = 2**19  # values that are searched at a time
SURPLUS = 1.5  # times the wanted values may be held, and a block's
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def largest(values: Values, count: int) -> Indices:
    """Return the indices of the `count` largest magnitudes.

    Memory beside the result is at most about 45 bytes for each wanted value and 30 MB, for any vector.

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
    indices = _largest_above(values, count, threshold)
    if len(indices) < count and threshold > SMALLEST:
        indices = _largest_above(values, count, SMALLEST)
    return indices


def _largest_above(values: Values, count: int, threshold: float) -> Indices:
    """Return what `largest` returns, of the values whose magnitude reaches the threshold."""
    blocks: list[tuple[Indices, Values]] = []
    held = 0
    for begin in range(0, len(values), BLOCK):
        indices, selected = select(values[begin : begin + BLOCK], threshold)
        indices += begin
        blocks.append((indices, selected))
        held += len(indices)
        if held > SURPLUS * count + BLOCK:
            indices, selected = _join(blocks)
            chosen, least = _first_largest(selected, count)
            blocks, held = [(indices[chosen], selected[chosen])], count
            threshold = float(np.nextafter(least, np.float32(np.inf)))  # a later value as small would not be taken
    indices, selected = _join(blocks)
    return indices if len(indices) <= count else indices[_first_largest(selected, count)[0]]


def _join(blocks: list[tuple[Indices, Values]]) -> tuple[Indices, Values]:
    """Join the blocks; empties the list, so that they are freed."""
    indices, selected = (np.concatenate(each) for each in zip(*blocks, strict=True))
    blocks.clear()
    return indices, selected


def _first_largest(selected: Values, count: int) -> tuple[NDArray[np.bool_], np.float32]:
    """Return a mask of the `count` < k largest magnitudes of float32 [k], of equal ones the first; and the smallest."""
    magnitudes = np.abs(selected)
    magnitudes.partition(len(magnitudes) - count)
    least = magnitudes[len(magnitudes) - count]
    np.abs(selected, out=magnitudes)
    chosen = magnitudes > least
    ties = np.flatnonzero(magnitudes == least)
    chosen[ties[: count - np.count_nonzero(chosen)]] = True
    return chosen, least


def sampled_threshold(values: Values, count: int) -> float:
    """Estimate from a sample a magnitude that slightly more than `count` of the values float32 [n > 0] reach."""
    stride, rank = sampling(len(values), count)
    sample = np.abs(values[::stride])
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank])


def sampling(n: int, count: int) -> tuple[int, int]:
    """Return the stride of a sample of n > 0 values, and which of its largest magnitudes is the estimated threshold.

    The estimate allows for three standard deviations of the sample, so that fewer than `count` are rare.
    """
    stride = max(1, min(STRIDE, n // SAMPLE))
    sampled = -(-n // stride)
    expected = count * sampled / n
    return stride, min(sampled, int(expected + 3 * sqrt(expected)) + 1)
