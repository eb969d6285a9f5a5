"""Sums over the bits of words, against Python's integers, up to the limits of the lanes."""

import numpy as np
import pytest

from bitlane.contract.formats import WEIGHT

LANES = 64
SUM_CHUNKS = 64  # as in lanes.c


def bits(word):
    return [word >> i & 1 for i in range(LANES)]


def plane_sums(parts, words, first, second, step, weights):
    """The sums for the weights of `count` chunks, as Python integers."""
    totals = np.zeros(4, np.int64)
    at = [words[start:].ctypes.data for start in (first, second)]
    parts["plane_sums"](*at, step, weights.ctypes.data, len(weights) // LANES, totals.ctypes.data)
    return totals.tolist()


@pytest.mark.parametrize("count", [0, 1, 2, 23, SUM_CHUNKS])
@pytest.mark.parametrize("step", [1, 3])
def test_sums_of_both_planes(seed, parts, count, step):
    rng = np.random.default_rng(seed)
    words = rng.integers(-(1 << 63), 1 << 63, 5 + SUM_CHUNKS * step)
    single = rng.integers(WEIGHT.minimum, WEIGHT.maximum + 1, 32 * count).astype(np.int32)
    expected = [0] * 4
    for row, start in enumerate((2, 5)):
        for chunk in range(count):
            for i, bit in enumerate(bits(int(words[start + chunk * step]))):
                expected[2 * row + i % 2] += bit * int(single[32 * chunk + i // 2])
    assert plane_sums(parts, words, 2, 5, step, np.repeat(single, 2)) == expected


@pytest.mark.parametrize("weight", [WEIGHT.minimum, WEIGHT.maximum])
def test_the_largest_sums_fit(parts, weight):
    words = np.full(SUM_CHUNKS, -1, np.int64)
    weights = np.full(SUM_CHUNKS * LANES, weight, np.int32)
    assert plane_sums(parts, words, 0, 0, 1, weights) == [SUM_CHUNKS * 32 * weight] * 4


@pytest.mark.parametrize("rows", [0, 1, 2, 65])
def test_terms_of_rows(seed, parts, rows):
    rng = np.random.default_rng(seed)
    words = rng.integers(-(1 << 63), 1 << 63, 200)
    offsets = rng.integers(0, 200, 70)
    terms = rng.integers(-(1 << 31), 1 << 31, 2 * 70).astype(np.int32)
    sums = rng.integers(-(1 << 31), 1 << 31, LANES).astype(np.int32)
    expected = sums.tolist()
    for row in range(rows):
        for i, bit in enumerate(bits(int(words[offsets[row]]))):
            expected[i] += bit * int(terms[2 * row + i % 2])
    arrays = [each.ctypes.data for each in (words, offsets, terms, sums)]
    parts["add_terms"](*arrays[:2], rows, *arrays[2:])
    assert [(value - found) % (1 << 32) for value, found in zip(expected, sums.tolist(), strict=True)] == [0] * LANES
