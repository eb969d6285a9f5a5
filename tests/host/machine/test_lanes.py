"""Sums over the bits of words, against Python's integers, up to the limits of the lanes."""

import numpy as np
import pytest

from bitlane.contract.formats import WEIGHT
from bitlane.machine.lanes import LANES, SUM_CHUNKS, add_terms, plane_sums
from bitlane.support.jit import machine_code


def _sums(words, first, second, step, weights, place, count):
    return plane_sums(words, (first, second), step, weights, place, count)


def _add(words, offsets, shift, rows, terms, place, sums):
    add_terms(words, offsets, shift, rows, terms, place, sums)


@pytest.fixture(scope="module")
def kernels():
    return machine_code(_sums), machine_code(_add)


def bits(word):
    return [word >> i & 1 for i in range(LANES)]


@pytest.mark.parametrize("count", [0, 1, 2, 23, SUM_CHUNKS])
@pytest.mark.parametrize("step", [1, 3])
def test_sums_of_both_planes(seed, kernels, count, step):
    rng = np.random.default_rng(seed)
    words = rng.integers(-(1 << 63), 1 << 63, 5 + SUM_CHUNKS * step)
    single = rng.integers(WEIGHT.minimum, WEIGHT.maximum + 1, 32 * (1 + SUM_CHUNKS)).astype(np.int32)
    found = kernels[0](words, 2, 5, step, np.repeat(single, 2), LANES, count)
    expected = [0] * 4
    for row, start in enumerate((2, 5)):
        for chunk in range(count):
            for i, bit in enumerate(bits(int(words[start + chunk * step]))):
                expected[2 * row + i % 2] += bit * int(single[32 + 32 * chunk + i // 2])
    assert list(found) == expected


@pytest.mark.parametrize("weight", [WEIGHT.minimum, WEIGHT.maximum])
def test_the_largest_sums_fit(kernels, weight):
    words = np.full(SUM_CHUNKS, -1, np.int64)
    weights = np.full(SUM_CHUNKS * LANES, weight, np.int32)
    assert kernels[0](words, 0, 0, 1, weights, 0, SUM_CHUNKS) == (SUM_CHUNKS * 32 * weight,) * 4


@pytest.mark.parametrize("rows", [0, 1, 2, 65])
def test_terms_of_rows(seed, kernels, rows):
    rng = np.random.default_rng(seed)
    words = rng.integers(-(1 << 63), 1 << 63, 200)
    offsets = rng.integers(0, 190, 70)
    terms = rng.integers(-(1 << 31), 1 << 31, 4 + 2 * 70).astype(np.int32)
    sums = rng.integers(-(1 << 31), 1 << 31, LANES).astype(np.int32)
    expected = sums.tolist()
    for row in range(rows):
        for i, bit in enumerate(bits(int(words[offsets[row] + 7]))):
            expected[i] += bit * int(terms[4 + 2 * row + i % 2])
    kernels[1](words, offsets, 7, rows, terms, 4, sums)
    assert [(value - found) % (1 << 32) for value, found in zip(expected, sums.tolist(), strict=True)] == [0] * LANES
