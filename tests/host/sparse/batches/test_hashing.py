"""Keys are those of the xxhash library on the documented bytes."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bitlane.errors import DataError
from bitlane.sparse.batches.hashing import cell_key, cell_keys, column_key, cross_keys, integer_keys, text_keys

MASK = 2**64 - 1


def mixed(key: int, other: int) -> int:
    x = (key * 0x9E3779B97F4A7C15 + other) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


@given(st.text(max_size=40), st.lists(st.binary(max_size=120), max_size=8))
def test_keys_of_text(column: str, cells: list[bytes]) -> None:
    wanted = [xxhash.xxh64_intdigest(column.encode() + b"=" + cell) for cell in cells]
    assert cell_keys(column, cells).tolist() == wanted


def test_every_length(seed: int) -> None:
    data = np.random.default_rng(seed).bytes(200)
    cells = [data[:size] for size in range(200)]
    assert cell_keys("c", cells).tolist() == [xxhash.xxh64_intdigest(b"c=" + cell) for cell in cells]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_keys_of_integers_are_those_of_their_decimal_text(dtype: type[np.integer], seed: int) -> None:
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max, 200, dtype, endpoint=True)
    powers = [p for e in range(20) for p in (10**e - 1, 10**e, -(10**e)) if limits.min <= p <= limits.max]
    values = np.concatenate([drawn, np.array([limits.min, limits.max, *powers], dtype)])
    wanted = [xxhash.xxh64_intdigest(f"user={value}".encode()) for value in values.tolist()]
    assert integer_keys("user", values).tolist() == wanted


def test_the_known_digests() -> None:
    """Of the specification: xxh64 of nothing with seed 0; of others by the reference program `xxhsum -H1`."""
    assert column_key("") == 0xEF46DB3751D8E999
    assert column_key("a") == 0xD24EC4F1A98C6E5B
    assert column_key("abc") == 0x44BC2CF5AD770999
    assert cell_key("", "") == xxhash.xxh64_intdigest(b"=")


def test_single_cells() -> None:
    assert cell_key("year", 2018) == cell_key("year", "2018") == xxhash.xxh64_intdigest(b"year=2018")
    assert cell_key("year", None) == cell_key("year", "") == xxhash.xxh64_intdigest(b"year=")
    assert cell_key("城市", "北京") == xxhash.xxh64_intdigest("城市=北京".encode())
    assert column_key("price") == xxhash.xxh64_intdigest(b"price")
    assert len(cell_keys("a", [])) == 0


def test_a_slice_of_a_longer_text() -> None:
    text = np.frombuffer(b"xxabcdyy", np.uint8).copy()
    assert text_keys("c", text, np.array([2, 4, 4, 6])).tolist() == [cell_key("c", cell) for cell in ("ab", "", "cd")]
    assert text.flags.writeable  # the argument is as it was


def test_crosses_mix_the_keys_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = (rng.integers(0, MASK, 50, np.uint64, endpoint=True) for _ in range(3))
    kept = a.copy()
    assert cross_keys([a, b]).tolist() == [mixed(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    assert cross_keys([a, b, c]).tolist() == [mixed(mixed(x, y), z) for x, y, z in triples]
    assert not (cross_keys([a, b]) == cross_keys([b, a])).any()
    np.testing.assert_array_equal(a, kept)
    with pytest.raises(DataError, match=r"a cross needs at least 2 columns; got 1"):
        cross_keys([a])
