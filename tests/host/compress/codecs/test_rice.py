"""Golomb-Rice codes of indices, against a bit-by-bit coder and against the entropy."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.properties import damage, damaged, index_sets, share

from bitlane.compress.codecs import rice
from bitlane.compress.codecs.wire import PayloadError
from bitlane.errors import DataError

SETS = [[], [0], [5], [999], [0, 1, 2], [0, 999], list(range(1000)), [3, 4, 500, 501, 998], list(range(0, 1000, 7))]


def by_hand(indices: list[int], parameter: int) -> bytes:
    """The documented format, bit by bit, in Python integers."""
    low = unary = low_at = unary_at = 0
    before = -1
    for index in indices:
        gap, before = index - before - 1, index
        low |= (gap % 2**parameter) << low_at
        low_at += parameter
        unary_at += gap // 2**parameter
        unary |= 1 << unary_at
        unary_at += 1
    strings = low.to_bytes((low_at + 7) // 8, "little") + unary.to_bytes((unary_at + 7) // 8, "little")
    return leb128(64 * len(indices) + parameter) + strings


def leb128(value: int) -> bytes:
    """The textbook's LEB128: low seven bits first; the highest bit of a byte is set if more follow."""
    data = bytearray()
    while value > 127:
        data.append(value % 128 + 128)
        value //= 128
    return bytes([*data, value])


def string_bits(codes: np.ndarray) -> int:
    """Bits of the low and the unary string, in whole bytes."""
    return 8 * (len(codes) - rice.read_prefix(codes)[2])


def bits_by_hand(indices: list[int], parameter: int) -> int:
    gaps = np.diff(indices, prepend=-1) - 1
    return sum(gap // 2**parameter + 1 + parameter for gap in gaps.tolist())


def random_indices(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return np.sort(rng.choice(n, k, replace=False)).astype(np.int64)


def entropy_bits(n: int, k: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


@pytest.mark.parametrize("indices", SETS)
def test_the_format(indices: list[int]) -> None:
    codes = rice.encode(np.array(indices, np.int64), 1000)
    assert codes.tobytes() == by_hand(indices, rice.read_prefix(codes)[1])
    assert rice.decode(codes, 1000).tolist() == indices


@share(1 / 20)
@given(index_sets() | index_sets(2**48))
def test_any_indices_survive_the_round_trip(case: tuple[list[int], int]) -> None:
    indices, n = case
    codes = rice.encode(np.array(indices, np.int64), n)
    assert codes.tobytes() == by_hand(indices, rice.read_prefix(codes)[1])
    found = rice.decode(codes, n)
    assert found.dtype == np.int64 and found.tolist() == indices


def test_dense_sets_survive_the_round_trip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for k in (0, 30_000, 60_000, 99_999, 100_000):
        indices = random_indices(rng, 100_000, k)
        codes = rice.encode(indices, 100_000)
        assert codes.tobytes() == by_hand(indices.tolist(), rice.read_prefix(codes)[1])
        assert np.array_equal(rice.decode(codes, 100_000), indices)


def test_the_parameter_is_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(1000, 50_000))
        indices = np.unique((n * rng.random(200) ** rng.uniform(1, 4)).astype(np.int64))
        bits = [bits_by_hand(indices.tolist(), parameter) for parameter in range(20)]
        assert rice.best_parameter(np.diff(indices, prepend=-1) - 1, n) == int(np.argmin(bits))


@pytest.mark.parametrize("density", [1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("k", [1000, 20_000])
def test_at_most_a_tenth_above_the_entropy(seed: int, density: float, k: int) -> None:
    """All bytes count, those of the prefix too."""
    indices = np.cumsum(np.random.default_rng(seed).geometric(density, k)) - 1
    n = int(indices[-1]) + 1
    assert 8 * len(rice.encode(indices, n)) <= 1.1 * entropy_bits(n, k)


@pytest.mark.parametrize("density", [1e-4, 1e-2, 0.2])
def test_fifty_indices(seed: int, density: float) -> None:
    """The mean length of the strings of 50 indices, without the prefix of two bytes."""
    rng, n = np.random.default_rng(seed), round(50 / density)
    bits = [string_bits(rice.encode(random_indices(rng, n, 50), n)) for _ in range(200)]
    assert np.mean(bits) <= 1.1 * entropy_bits(n, 50)


def test_clusters_cost_no_more_than_the_bound(seed: int) -> None:
    """k (1 + r) + (n - k) / 2**r bits for any r, wherever the indices are; clusters stay within 1.1 of the entropy."""
    rng, n, k = np.random.default_rng(seed), 1_000_000, 5000
    for clusters in (1, 10, 100):
        starts = rng.integers(0, n - 2000, clusters)
        indices = np.unique(
            np.concatenate([s + random_indices(rng, 2000, k // clusters if clusters > 2 else 1900) for s in starts])
        )
        found, bits = len(indices), string_bits(rice.encode(indices, n))
        assert bits <= min(found * (1 + r) + (n - found) / 2**r for r in range(20)) + 14
        assert bits <= 1.1 * entropy_bits(n, found)


@pytest.mark.parametrize(
    ("indices", "n"), [([3, 3], 10), ([4, 3], 10), ([-1], 10), ([10], 10), ([0], 0), ([0], 2**48 + 1)]
)
def test_invalid_indices_are_refused(indices: list[int], n: int) -> None:
    with pytest.raises(DataError, match="indices"):
        rice.encode(np.array(indices), n)


@pytest.mark.parametrize("indices", [np.zeros(1), np.zeros(1, np.uint64), np.zeros((1, 1), np.int64)])
def test_other_arrays_are_refused(indices: np.ndarray) -> None:
    with pytest.raises(DataError, match="int64"):
        rice.encode(indices, 10)


def test_truncated_or_too_long(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rice.encode(random_indices(rng, 5000, 60), 5000)
    for length in range(len(codes)):
        with pytest.raises(PayloadError):
            rice.decode(codes[:length], 5000)
    with pytest.raises(PayloadError, match="too long"):
        rice.decode(np.append(codes, np.uint8(0)), 5000)


def test_out_of_range() -> None:
    codes = rice.encode(np.array([10, 90, 4999]), 5000)
    with pytest.raises(PayloadError, match="beyond the 4999 values"):
        rice.decode(codes, 4999)


@pytest.mark.parametrize("parameter", [48, 63])
def test_invalid_parameters_are_refused(parameter: int) -> None:
    codes = leb128(64 + parameter) + bytes(8) + b"\1"
    with pytest.raises(PayloadError, match="parameter"):
        rice.decode(np.frombuffer(codes, np.uint8), 1000)


CODES = rice.encode(np.arange(0, 5000, 83), 5000).tobytes()


@share(1 / 4)
@given(damage(len(CODES)), st.integers(0, 2))
def test_damaged_codes_give_valid_indices_or_an_error(changes: list[tuple[int, int]], cut: int) -> None:
    codes = np.frombuffer(damaged(CODES, changes)[: len(CODES) - cut], np.uint8)
    try:
        indices = rice.decode(codes, 5000)
    except PayloadError:
        return
    assert (np.diff(indices, prepend=-1) > 0).all() and (indices < 5000).all()


@pytest.mark.parametrize("claimed", [2**32, 2**49])
def test_a_large_count_is_refused(claimed: int) -> None:
    """A count that the bytes cannot hold is refused before memory is allocated for it."""
    with pytest.raises(PayloadError, match="truncated"):
        rice.decode(np.frombuffer(leb128(64 * claimed) + bytes(8), np.uint8), 2**40)


def test_a_prefix_without_an_end() -> None:
    with pytest.raises(PayloadError, match="have no valid prefix"):
        rice.decode(np.full(100, 255, np.uint8), 2**40)


def test_the_parameters_that_are_tried_contain_the_best() -> None:
    """All sets of five indices below 19, where the best is the last one that is tried for some of them."""
    tried, last = rice.tried_parameters(5, 19), 0
    for indices in combinations(range(19), 5):
        gaps = np.diff(indices, prepend=-1) - 1
        best = int(np.argmin([5 * parameter + (gaps >> parameter).sum() for parameter in range(6)]))
        assert best == rice.best_parameter(gaps, 19)
        last += best == tried[-1]
    assert last


def test_ties_take_the_smallest_parameter() -> None:
    assert rice.best_parameter(np.array([2]), 3) == 0
    assert rice.best_parameter(np.zeros(0, np.int64), 10) == 0


def test_bits_after_the_last_index() -> None:
    codes = rice.encode(np.array([100]), 1000)
    _, parameter, begin = rice.read_prefix(codes)
    assert parameter < 8
    codes[begin] |= 128
    with pytest.raises(PayloadError, match="after the last index"):
        rice.decode(codes, 1000)


@pytest.mark.parametrize(
    "codes",
    [
        leb128(64 + 47) + bytes(6) + bytes(2**14) + b"\1",  # one gap of 2**17 times 2**47
        leb128(64 * 2**16 + 47) + b"\xff" * (2**16 * 47 // 8) + b"\xaa" * 2**14,  # 2**16 gaps of 2**48 - 1
    ],
)
def test_sums_that_would_overflow(codes: bytes) -> None:
    """In 64-bit arithmetic these sums would wrap around to valid indices."""
    with pytest.raises(PayloadError, match="beyond"):
        rice.decode(np.frombuffer(codes, np.uint8), 2**48)
