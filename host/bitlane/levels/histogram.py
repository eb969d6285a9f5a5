"""Bins that are narrow near likely levels, filled in two passes over values that need not be sorted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import compiled

from .bins import Bins
from .curve import Floats

Words = NDArray[np.int32]

BLOCK = 1 << 15  # values worked on at a time: what a cache holds
SAMPLE = 1 << 12  # values of which the median is taken
LOW_BITS = 16
BUCKETS = 1 << (32 - LOW_BITS)
LINE = 8  # numbers stored for each bin, so that a value touches one line of the cache


def histogram(values: NDArray[np.floating], weights: Floats | None, goal: int) -> Bins:
    """Put the values into about `goal` bins, at most four times as many.

    The bin of a value depends on the float32 bits of its distance from the middle. These bits have the order of the
    floats, so that each bin holds all values between its first and its last, whatever the rounding. The first pass
    counts the values by their upper 16 bits. Each bucket is then divided into equal bins: half of `goal` is assigned
    by the number of values (quantiles, for clustered values), and half by the density of the best levels, about the
    cube root of the density of the values (Panter and Dite 1951). Neighbours too small for one share a bin. The
    second pass sums.

    Parameters
    ----------
    values : float32 or float64 array [N]
        Finite, in any order.
    weights : float64 array [N] or None
        Positive; None for 1 each.
    goal : int
        At least 1.

    Returns
    -------
    Bins
    """
    sample = np.sort(values[:: max(1, len(values) // SAMPLE)])
    middle = float(sample[len(sample) // 2]) + 0.0  # never -0.0
    scale = 2.0 ** -int(np.frexp(float(values.max()) - float(values.min()))[1])
    counts = np.zeros(BUCKETS)
    for _, words, heavy in _blocks(values, weights, middle, scale):
        _count(words, heavy, counts)
    base, pieces, bins = _cut(counts, goal)
    sums = np.zeros(bins * LINE)
    for x, words, heavy in _blocks(values, weights, middle, scale):
        _sum(words, x, heavy, base, pieces, sums)
    full = sums[::LINE] > 0
    weight, offset, square, reference, first, last = sums.reshape(bins, LINE)[full, :6].T.copy()
    move = reference - first
    square += move * (2 * offset + weight * move)
    offset += weight * move
    numbers = weight if weights is None else np.minimum(weight / weights.min(), len(values))
    error = float(np.finfo(float).eps * np.sum(numbers * weight * (last - first)))
    # Before a gap the last value of a bin is as good a level: it begins an empty bin.
    lonely = np.append(first[1:], np.inf) - last > last - first
    lonely &= last > first
    ends = np.flatnonzero(lonely) + 1
    first = np.insert(first, ends, last[lonely])
    weight, offset, square = np.insert(np.stack([weight, offset, square]), ends, 0.0, axis=1)
    return Bins(first, weight, offset, square, error)


def _blocks(
    values: NDArray[np.floating], weights: Floats | None, middle: float, scale: float
) -> Iterator[tuple[Floats, Words, Floats]]:
    """Yield blocks: the values, the bits of their scaled distances from the middle, and the weights."""
    ones = np.ones(BLOCK)
    for start in range(0, len(values), BLOCK):
        x = values[start : start + BLOCK].astype(np.float64)
        distance = middle - x  # this way round, 0.0 and -0.0 are one
        distance *= -scale
        words = distance.astype(np.float32).view(np.int32)
        yield x, words, ones[: len(x)] if weights is None else weights[start : start + BLOCK]


def _cut(counts: Floats, goal: int) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Return the first bin and the number of bins (0 for less than one) of each bucket, and the number of bins."""
    used = np.flatnonzero(counts)
    width = _edge(((used - BUCKETS // 2) << LOW_BITS) + (1 << LOW_BITS) - 1) - _edge((used - BUCKETS // 2) << LOW_BITS)
    dense = np.cbrt(counts[used] * (width / width.max()) ** 2)
    share = goal * (counts[used] / counts[used].sum() + dense / dense.sum()) / 2
    ends = np.floor(np.cumsum(share)).astype(np.int64)
    pieces = np.diff(ends, prepend=0)
    alone = pieces == 0
    begins = alone & ~np.concatenate([[False], alone[:-1]])  # neighbours of less than a bin share the first one's
    bins = np.cumsum(pieces + begins)
    tables = np.zeros((2, BUCKETS), np.int32)
    tables[:, used] = bins - np.maximum(pieces, 1), pieces
    return tables[0], tables[1], int(bins[-1])


def _edge(keys: NDArray[np.int64]) -> Floats:
    """Return the float32 values that have these positions in the order of all float32 values."""
    words = np.where(keys < 0, keys ^ 0x7FFFFFFF, keys).astype(np.int32)
    return words.view(np.float32).astype(np.float64)


@compiled
def _count(words: Words, weights: Floats, counts: Floats) -> None:
    """Add the weight of each value to its bucket; equal neighbours together, since each addition waits for the last."""
    weight = 0.0
    for i in range(len(words)):
        word = words[i]
        weight += weights[i]
        if i + 1 < len(words) and words[i + 1] == word:
            continue
        key = word if word >= 0 else word ^ 0x7FFFFFFF
        counts[(key >> 16) + 32768] += weight
        weight = 0.0


@compiled
def _sum(words: Words, x: Floats, weights: Floats, base: Words, pieces: Words, sums: Floats) -> None:
    """Add each value to the sums of its bin; equal neighbours together.

    The sums of a bin are: the weight, the sum of distances to the first value seen and of their squares, that value,
    the smallest value and the largest.
    """
    weight = 0.0
    for i in range(len(words)):
        word, value = words[i], x[i]
        weight += weights[i]
        if i + 1 < len(words) and x[i + 1] == value:
            continue
        key = word if word >= 0 else word ^ 0x7FFFFFFF
        bucket = (key >> 16) + 32768
        at = LINE * (base[bucket] + ((key & 0xFFFF) * pieces[bucket] >> 16))
        if sums[at] == 0.0:
            sums[at + 3] = value
            sums[at + 4] = value
            sums[at + 5] = value
        distance = value - sums[at + 3]
        sums[at] += weight
        sums[at + 1] += weight * distance
        sums[at + 2] += weight * distance * distance
        sums[at + 4] = value if value < sums[at + 4] else sums[at + 4]  # without a branch
        sums[at + 5] = value if value > sums[at + 5] else sums[at + 5]
        weight = 0.0
