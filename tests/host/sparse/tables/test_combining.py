"""Differences and merges of frozen tables against dicts, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.frozen_tables import KEY_SETS, bytes_of, contents, frozen, random_keys, random_rows
from tests.helpers.properties import SEEDS, share

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.tables.codebooks import Codebook, fit_codebook
from bitlane.sparse.tables.combining import all_items, difference, merge, table_of


def changed_rows(rng, rows: dict, added: set[int], width: int) -> dict:
    """The rows after some were changed, removed and added."""
    after = {key: row for key, row in rows.items() if rng.random() < 0.8}
    for key in [*after]:
        if rng.random() < 0.3:
            after[key] = rng.standard_normal(width).astype(np.float32)
    return {**after, **random_rows(rng, added, width)}


@share(0.15)
@given(KEY_SETS, KEY_SETS, st.sampled_from([None, 2, 8]), SEEDS)
def test_a_difference_makes_the_new_table_of_the_old_one(keys, added, bits, seed):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, keys, 2)
    after = changed_rows(rng, rows, added, 2)
    codebook = None if bits is None else fit_codebook(rng.standard_normal((50, 2)).astype(np.float32), bits)
    old, new = frozen(rows, 2, codebook), frozen(after, 2, codebook)
    changed, deleted = difference(old, new)
    before, now = contents(old), contents(new)
    assert contents(changed) == {key: row for key, row in now.items() if before.get(key) != row}
    assert set(contents(deleted)) == before.keys() - now.keys()
    assert bytes_of(merge(old, changed, deleted)) == bytes_of(new)


def test_many_rows_in_several_chunks(seed):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, random_keys(rng, 150_000), 1)
    after = changed_rows(rng, rows, set(random_keys(rng, 3000)), 1)
    old, new = frozen(rows, 1, chunk=5000), frozen(after, 1, chunk=5000)
    changed, deleted = difference(old, new)
    assert bytes_of(merge(old, changed, deleted)) == bytes_of(new)
    assert len(changed) == sum(row.tobytes() != contents_row(rows, key) for key, row in after.items())


def contents_row(rows: dict, key: int) -> bytes:
    return rows[key].tobytes() if key in rows else b""


def test_a_change_of_sign_of_zero_is_a_change():
    old, new = frozen({5: np.float32([0.0])}, 1), frozen({5: np.float32([-0.0])}, 1)
    changed, _ = difference(old, new)
    assert len(changed) == 1
    assert bytes_of(merge(old, changed)) == bytes_of(new)


def test_rows_above_win():
    below = frozen({1: np.float32([1]), 2: np.float32([2]), 3: np.float32([3])}, 1)
    above = frozen({2: np.float32([20]), 4: np.float32([40])}, 1)
    gone = frozen({3: np.zeros(0, np.float32), 9: np.zeros(0, np.float32)}, 0)
    found = {key: np.frombuffer(row, np.float32)[0] for key, row in contents(merge(below, above, gone)).items()}
    assert found == {1: 1, 2: 20, 4: 40}


def test_empty_tables():
    empty, one = frozen({}, 1), frozen({1: np.float32([1])}, 1)
    assert bytes_of(merge(empty, one)) == bytes_of(one) == bytes_of(merge(one, empty))
    assert [len(each) for each in difference(one, empty)] == [0, 1]
    assert [each.shape for each in all_items(empty)] == [(0,), (0, 1)]
    assert bytes_of(table_of(iter([]), 1)) == bytes_of(empty)


def test_tables_that_do_not_fit_are_refused():
    one, two = frozen({1: np.float32([1])}, 1), frozen({1: np.float32([1, 2])}, 2)
    with pytest.raises(DataError, match="1 values a row, the other 2"):
        merge(one, two)
    with pytest.raises(DataError, match="different levels"):
        difference(one, frozen({1: np.float32([1])}, 1, Codebook(np.zeros((1, 4), np.float32))))
