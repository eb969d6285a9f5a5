"""Frozen tables against dicts: every key, absent keys, bytes, damage."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.frozen_tables import KEY_SETS, bytes_of, contents, frozen, random_keys, random_rows
from tests.helpers.properties import SEEDS, share
from tests.helpers.sparse_tables import KEYS, MARKED, mixed, unmixed

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.tables.codebooks import Codebook, fit_codebook
from bitlane.sparse.tables.frozen import FrozenTable, freeze
from bitlane.sparse.tables.table import Table


@share(0.2)
@given(KEY_SETS, st.sets(KEYS, max_size=40), st.sampled_from([0, 1, 3, 17]), SEEDS)
def test_a_table_has_the_rows_of_a_dict(keys, others, width, seed):
    rows = random_rows(np.random.default_rng(seed), keys, width)
    table = frozen(rows, width)
    asked = [*keys, *others, *keys]
    ranks = table.find(np.array(asked, np.uint64))
    order = sorted(keys, key=mixed)
    assert ranks.tolist() == [order.index(key) if key in rows else -1 for key in asked]
    nothing = np.zeros(width, np.float32)
    assert table.read(ranks).tobytes() == b"".join(rows.get(key, nothing).tobytes() for key in asked)
    assert len(table) == len(keys)
    assert list(contents(table, 7)) == order
    assert contents(table) == {key: row.tobytes() for key, row in rows.items()}


@pytest.mark.parametrize("count", [20_000, 150_000])
def test_many_keys_and_their_neighbours(seed, count):
    """Hits, and misses whose words are next to those of keys."""
    rng = np.random.default_rng(seed)
    rows = {key: np.float32([key % 1000]) for key in random_keys(rng, count)}
    table = frozen(rows, 1, chunk=1000)
    keys = np.array(list(rows), np.uint64)
    found = table.find(keys)
    assert sorted(found.tolist()) == list(range(len(keys)))
    np.testing.assert_array_equal(table.read(found)[:, 0], (keys % np.uint64(1000)).astype(np.float32))
    near = [unmixed((mixed(key) + step) % 2**64) for key in keys[:500].tolist() for step in (-1, 1)]
    absent = [key for key in near if key not in rows]
    assert (table.find(np.array(absent, np.uint64)) == -1).all()


def test_words_in_one_place_are_found_too(seed):
    """Words that are chosen against the mixing: all in one bucket, at its beginning and at its end."""
    rng = np.random.default_rng(seed)
    words = [(7 << 57) + int(low) for low in np.unique(rng.integers(0, 1 << 20, 3000))]
    words += [(8 << 57) - 1 - int(low) for low in np.unique(rng.integers(0, 1 << 20, 3000))]
    rows = {unmixed(word): np.float32([1.5]) for word in words}
    table = frozen(rows, 1)
    keys = [unmixed(word) for word in words]
    assert (table.find(np.array(keys, np.uint64)) == np.argsort(np.argsort(np.array(words, np.uint64)))).all()
    other = [unmixed(word + 1) for word in words if word + 1 not in set(words)]
    assert (table.find(np.array(other, np.uint64)) == -1).all()


def test_the_rows_of_a_table_are_frozen_as_it_lists_them(seed):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 5000), 2)
    table = Table(2)
    table.scatter(np.array(list(rows), np.uint64), np.array(list(rows.values())))
    found = freeze(table.items(1000), len(table), 2)
    assert bytes_of(found) == bytes_of(frozen(rows, 2))
    assert contents(found) == {key: row.tobytes() for key, row in rows.items()}


def test_the_key_with_the_largest_word_may_come_first_and_alone():
    rows = {MARKED: np.float32([1]), 1: np.float32([2]), 2: np.float32([3])}
    others = sorted([1, 2], key=mixed)
    chunks = [([MARKED], [[1.0]]), ([], []), (others, [rows[key] for key in others])]
    arrays = [(np.array(keys, np.uint64), np.array(found, np.float32).reshape(-1, 1)) for keys, found in chunks]
    assert bytes_of(freeze(arrays, 3, 1)) == bytes_of(frozen(rows, 1))
    assert bytes_of(freeze(arrays[:1], 1, 1)) == bytes_of(frozen({MARKED: rows[MARKED]}, 1))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_codes_are_the_nearest_levels(seed, bits):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 500), 3)
    levels = np.sort(rng.standard_normal((3, 1 << bits)), axis=1).astype(np.float32)
    table = frozen(rows, 3, Codebook(levels))
    found = table.read(table.find(np.array(list(rows), np.uint64)))
    for column in range(3):
        values = np.array([row[column] for row in rows.values()], np.float64)
        distances = abs(values[:, None] - levels[column].astype(np.float64))
        chosen = abs(values - found[:, column])
        np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=0, atol=1e-6)
        assert np.isin(found[:, column], levels[column]).all()
    again = freeze(table.items(), len(table), 3, table.codebook)
    assert bytes_of(again) == bytes_of(table)


def test_bytes_of_a_row():
    """Of 2^17 rows: 64 - 15 bits of key, 8 bits of index, 4 bytes of value or half a byte of code."""
    count = 1 << 17
    rng = np.random.default_rng(1)
    words = np.sort(np.unique(rng.integers(0, 2**64 - 1, 2 * count, np.uint64))[:count])
    keys = np.array([unmixed(word) for word in words.tolist()], np.uint64)
    rows = rng.standard_normal((count, 1)).astype(np.float32)
    table = freeze([(keys, rows)], count, 1)
    assert table.nbytes == pytest.approx(count * (49 / 8 + 1 + 4), rel=0.001)
    small = freeze([(keys, rows)], count, 1, fit_codebook(rows[:1000], 4))
    assert small.nbytes == pytest.approx(count * (49 / 8 + 1 + 0.5), rel=0.001)
    assert table.nbytes < 0.95 * count * 12 and small.nbytes < 0.7 * count * 12


def test_a_mapped_file_is_used_as_it_is(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 2000), 2)
    (tmp_path / "rows.frozen").write_bytes(bytes_of(frozen(rows, 2)))
    with open(tmp_path / "rows.frozen", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    table = FrozenTable.from_buffer(mapped)
    assert np.shares_memory(table.data, np.frombuffer(mapped, np.uint8))
    expected = {key: row.tobytes() for key, row in rows.items()}
    assert contents(table) == expected
    assert contents(FrozenTable.from_buffer(bytes_of(table))) == expected


def test_damage_is_found_or_harmless(seed):
    """Headers, indices and lengths are checked; wrong remainders and values stay within the table."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 300), 2)
    keys = np.array(list(rows), np.uint64)
    data = bytearray(bytes_of(frozen(rows, 2)))
    for at in [*range(64), *rng.integers(0, len(data), 300).tolist()]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(0, 8))
        try:
            table = FrozenTable.from_buffer(bytes(changed))
        except DataError:
            continue
        ranks = table.find(keys)
        assert ((ranks >= -1) & (ranks < len(table))).all()
        table.read(ranks)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda data: data[:-64], "instead of"),
        (lambda data: data[:20], "it has 20 bytes"),
        (lambda data: b"x" + data[1:], "its first bytes are different"),
        (lambda data: data[:8] + b"\x02" + data[9:], "format 2; this version reads format 1"),
    ],
)
def test_other_bytes_are_refused(change, message):
    data = bytes_of(frozen({1: np.float32([1]), 2: np.float32([2])}, 1))
    with pytest.raises(DataError, match=message):
        FrozenTable.from_buffer(change(data))


def test_a_wrong_index_is_refused():
    data = bytearray(bytes_of(frozen({1: np.float32([1]), 2: np.float32([2])}, 1)))
    data[64 + 4] = 9  # the first bucket would end behind the last row
    with pytest.raises(DataError, match="index"):
        FrozenTable.from_buffer(bytes(data))


def test_keys_that_do_not_fit_the_promise_are_refused():
    rows = np.zeros((1, 1), np.float32)
    first, second = sorted([1, 2], key=mixed)
    one, two = np.array([first], np.uint64), np.array([second], np.uint64)
    with pytest.raises(ValueError, match="order"):
        freeze([(two, rows), (one, rows)], 2, 1)
    with pytest.raises(ValueError, match="order"):
        freeze([(one, rows), (one, rows)], 2, 1)
    with pytest.raises(ValueError, match="got 1 keys instead of 2"):
        freeze([(one, rows)], 2, 1)
    with pytest.raises(ValueError, match="more than 1"):
        freeze([(one, rows), (two, rows)], 1, 1)
    with pytest.raises(DataError, match="2 columns, the rows have 1"):
        freeze([(one, rows)], 1, 1, Codebook(np.zeros((2, 4), np.float32)))
