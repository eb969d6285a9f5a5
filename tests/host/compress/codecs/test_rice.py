"""Codes of places, against a coder of one bit at a time, and against the entropy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bitlane.compress.codecs import rice
from bitlane.compress.codecs.wire import PayloadError
from bitlane.errors import DataError

SETS = [[], [0], [5], [999], [0, 1, 2], [0, 999], list(range(1000)), [3, 4, 500, 501, 998], list(range(0, 1000, 7))]


def by_hand(places: list[int], parameter: int) -> bytes:
    """The format as its table says it, bit by bit, in Python integers."""
    low = unary = low_at = unary_at = 0
    before = -1
    for place in places:
        gap, before = place - before - 1, place
        low |= (gap % 2**parameter) << low_at
        low_at += parameter
        unary_at += gap // 2**parameter
        unary |= 1 << unary_at
        unary_at += 1
    strings = low.to_bytes((low_at + 7) // 8, "little") + unary.to_bytes((unary_at + 7) // 8, "little")
    return leb128(64 * len(places) + parameter) + strings


def leb128(value: int) -> bytes:
    """The textbook's: low seven bits first, the highest bit of a byte says that more follow."""
    data = bytearray()
    while value > 127:
        data.append(value % 128 + 128)
        value //= 128
    return bytes([*data, value])


def string_bits(codes: np.ndarray) -> int:
    """Bits of both strings."""
    return 8 * (len(codes) - rice.fields(codes)[2])


def bits_by_hand(places: list[int], parameter: int) -> int:
    gaps = np.diff(places, prepend=-1) - 1
    return sum(gap // 2**parameter + 1 + parameter for gap in gaps.tolist())


def random_places(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    return np.sort(rng.choice(n, k, replace=False)).astype(np.int64)


def entropy_bits(n: int, k: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


@pytest.mark.parametrize("places", SETS)
def test_the_format(places: list[int]) -> None:
    codes = rice.encode(np.array(places, np.int64), 1000)
    assert codes.tobytes() == by_hand(places, rice.fields(codes)[1])
    assert rice.decode(codes, 1000).tolist() == places


def test_random_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        n = int(rng.integers(1, 100_000))
        places = random_places(rng, n, int(rng.integers(0, n + 1) ** rng.uniform(0.2, 1)))
        codes = rice.encode(places, n)
        assert codes.tobytes() == by_hand(places.tolist(), rice.fields(codes)[1])
        found = rice.decode(codes, n)
        assert found.dtype == np.int64 and np.array_equal(found, places)


def test_vectors_of_2_to_the_48(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.unique(np.concatenate([[0, 2**48 - 1], rng.integers(0, 2**48, 20)]))
    assert np.array_equal(rice.decode(rice.encode(places, 2**48), 2**48), places)
    alone = np.array([2**48 - 1])
    assert np.array_equal(rice.decode(rice.encode(alone, 2**48), 2**48), alone)


def test_the_parameter_is_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        n = int(rng.integers(1000, 50_000))
        places = np.unique((n * rng.random(200) ** rng.uniform(1, 4)).astype(np.int64))
        bits = [bits_by_hand(places.tolist(), parameter) for parameter in range(20)]
        assert rice.best_parameter(np.diff(places, prepend=-1) - 1) == int(np.argmin(bits))


@pytest.mark.parametrize("density", [1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("k", [1000, 20_000])
def test_at_most_a_tenth_above_the_entropy(seed: int, density: float, k: int) -> None:
    """All bytes, those of k and r too."""
    places = np.cumsum(np.random.default_rng(seed).geometric(density, k)) - 1
    n = int(places[-1]) + 1
    assert 8 * len(rice.encode(places, n)) <= 1.1 * entropy_bits(n, k)


@pytest.mark.parametrize("density", [1e-4, 1e-2, 0.2])
def test_fifty_places(seed: int, density: float) -> None:
    """The strings of 50 places, in the mean; two bytes in front come on top."""
    rng, n = np.random.default_rng(seed), round(50 / density)
    bits = [string_bits(rice.encode(random_places(rng, n, 50), n)) for _ in range(200)]
    assert np.mean(bits) <= 1.1 * entropy_bits(n, 50)


def test_clusters_cost_no_more_than_the_bound(seed: int) -> None:
    """k (1 + r) + (n - k) / 2**r bits for any r, wherever the places lie: clusters stay within 1.1 of entropy."""
    rng, n, k = np.random.default_rng(seed), 1_000_000, 5000
    for clusters in (1, 10, 100):
        starts = rng.integers(0, n - 2000, clusters)
        places = np.unique(
            np.concatenate([s + random_places(rng, 2000, k // clusters if clusters > 2 else 1900) for s in starts])
        )
        found, bits = len(places), string_bits(rice.encode(places, n))
        assert bits <= min(found * (1 + r) + (n - found) / 2**r for r in range(20)) + 14
        assert bits <= 1.1 * entropy_bits(n, found)


@pytest.mark.parametrize(
    ("places", "n"), [([3, 3], 10), ([4, 3], 10), ([-1], 10), ([10], 10), ([0], 0), ([0], 2**48 + 1)]
)
def test_places_that_are_none(places: list[int], n: int) -> None:
    with pytest.raises(DataError, match="places"):
        rice.encode(np.array(places), n)


@pytest.mark.parametrize("places", [np.zeros(1), np.zeros(1, np.uint64), np.zeros((1, 1), np.int64)])
def test_arrays_that_are_no_places(places: np.ndarray) -> None:
    with pytest.raises(DataError, match="int64"):
        rice.encode(places, 10)


def test_cut_short_or_too_long(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rice.encode(random_places(rng, 5000, 60), 5000)
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
def test_parameters_that_are_none(parameter: int) -> None:
    codes = leb128(64 + parameter) + bytes(8) + b"\1"
    with pytest.raises(PayloadError, match="parameter"):
        rice.decode(np.frombuffer(codes, np.uint8), 1000)


def test_hostile_bytes(seed: int) -> None:
    """Nothing but a PayloadError comes of damage, or places that are places."""
    rng = np.random.default_rng(seed)
    whole = rice.encode(random_places(rng, 5000, 60), 5000)
    for _ in range(3000):
        codes = whole.copy()
        codes[rng.integers(0, len(codes), rng.integers(1, 4))] = rng.integers(0, 256)
        try:
            places = rice.decode(codes[: rng.integers(len(codes) - 2, len(codes) + 1)], 5000)
        except PayloadError:
            continue
        assert (np.diff(places) > 0).all() and places[0] >= 0 and places[-1] < 5000


@pytest.mark.parametrize("claimed", [2**32, 2**49])
def test_many_places_are_claimed(claimed: int) -> None:
    """More than there are bytes for: refused before anything is made of them."""
    with pytest.raises(PayloadError, match="cut short"):
        rice.decode(np.frombuffer(leb128(64 * claimed) + bytes(8), np.uint8), 2**40)


def test_a_number_without_end() -> None:
    with pytest.raises(PayloadError, match="begin with their number"):
        rice.decode(np.full(100, 255, np.uint8), 2**40)


def test_of_equal_parameters_the_least() -> None:
    assert rice.best_parameter(np.array([2])) == 0
    assert rice.best_parameter(np.zeros(0, np.int64)) == 0


def test_bits_behind_the_last_place() -> None:
    codes = rice.encode(np.array([100]), 1000)
    _, parameter, begin = rice.fields(codes)
    assert parameter < 8
    codes[begin] |= 128
    with pytest.raises(PayloadError, match="behind the last place"):
        rice.decode(codes, 1000)


@pytest.mark.parametrize(
    "codes",
    [
        leb128(64 + 47) + bytes(6) + bytes(2**14) + b"\1",  # one gap of 2**17 times 2**47
        leb128(64 * 2**16 + 47) + b"\xff" * (2**16 * 47 // 8) + b"\xaa" * 2**14,  # 2**16 gaps of 2**48 - 1
    ],
)
def test_sums_that_would_overflow(codes: bytes) -> None:
    """In 64 bits these come out as places again."""
    with pytest.raises(PayloadError, match="beyond"):
        rice.decode(np.frombuffer(codes, np.uint8), 2**48)
