"""What a table does with each argument, and what it refuses."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.helpers.sparse_tables import FULL, MARKED, the_layout_is_right

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.tables.memory import ResizableArray
from bitlane.sparse.tables.sketch import Admission
from bitlane.sparse.tables.table import Table

pytest.importorskip("numba")

from bitlane.sparse.tables.mixing import keys_of


def array(*keys):
    return np.array(keys, np.uint64)


def some_keys(seed, count):
    return np.unique(np.random.default_rng(seed).integers(0, FULL, count, np.uint64, endpoint=True))


def contents(table):
    return {key: row.tolist() for keys, rows, *_ in table.items() for key, row in zip(keys.tolist(), rows, strict=True)}


def test_equal_keys_of_a_batch_are_one(seed):
    keys = array(7, 7, MARKED, 7, FULL, MARKED)
    table = Table(2)
    slots = table.find_or_insert(keys)
    assert len(table) == 3 and slots[0] == slots[1] == slots[3] and slots[2] == slots[5]
    table.scatter(keys, np.arange(12).reshape(6, 2))
    assert contents(table) == {7: [6, 7], FULL: [8, 9], MARKED: [10, 11]}
    assert table.delete(array(7, 7, 8, MARKED)) == 2 and contents(table) == {FULL: [8, 9]}


def test_rows_are_the_memory_of_the_table(seed):
    keys = some_keys(seed, 5000)
    table = Table(3)
    slots = table.find_or_insert(keys)
    assert table.rows.dtype == np.float32 and table.rows.shape[1] == 3 and not table.rows[slots].any()
    table.rows[slots] += np.arange(len(keys), dtype=np.float32)[:, None]
    np.testing.assert_array_equal(table.gather(keys)[:, 2], np.arange(len(keys)))


def test_gather_writes_zeros_for_absent_keys(seed):
    table = Table(2)
    table.scatter(array(1, 2), [[1, 1], [2, 2]])
    out = np.full((4, 2), np.nan, np.float32)
    assert table.gather(array(2, 3, 1, MARKED), out) is out
    assert out.tolist() == [[2, 2], [0, 0], [1, 1], [0, 0]] and len(table) == 2
    assert table.gather(array()).shape == (0, 2)


def test_new_keys_get_their_initial_rows_once(seed):
    asked = []

    def initial(keys):
        asked.extend(keys.tolist())
        return keys[:, None].astype(np.float32) * [1, 2]

    table = Table(2, initial_rows=initial)
    table.find_or_insert(array(5, 6, 5))
    table.find_or_insert(array(6, 7))
    assert sorted(asked) == [5, 6, 7] and contents(table) == {5: [5, 10], 6: [6, 12], 7: [7, 14]}
    with pytest.raises(DataError, match=r"1 keys need rows of shape \(1, 3\); got \(1, 2\)"):
        Table(3, initial_rows=initial).find_or_insert(array(1))


def test_a_key_enters_at_its_sighting(seed):
    """Few keys in many cells: none enters early, but with a chance below 1e-15."""
    table = Table(1, admission=Admission(3))
    keys = some_keys(seed, 100)
    assert (table.find_or_insert(keys) == -1).all() and len(table) == 0
    assert (table.find_or_insert(keys) == -1).all()
    slots = table.find_or_insert(keys)
    assert (slots >= 0).all() and len(table) == len(keys)
    assert table.sketch_nbytes == 1 << 22 and table.nbytes < 5000
    again = Table(1, admission=Admission(3))
    assert (again.find_or_insert(array(1, 1, 2, 1, 2)) >= 0).tolist() == [True, True, False, True, False]
    again.scatter(array(9), [[1.0]])
    assert again.find(array(9)) >= 0 and len(again) == 2


def test_the_admission_goes_on_from_its_state(seed):
    one, other = (Table(1, admission=Admission(2), track_age=True) for _ in range(2))
    one.tick(5)
    one.find_or_insert(array(1, 2))
    other.restore(one.state())
    assert other.clock == 5 and (other.find_or_insert(array(1, 3)) >= 0).tolist() == [True, False]
    with pytest.raises(DataError, match="a table with admission needs the state of one"):
        Table(1).restore(one.state())


def test_stamps_say_who_was_met():
    table = Table(1, track_age=True)
    table.scatter(array(1, 2, 3, 4, 5, MARKED), np.zeros((6, 1)))
    table.tick(10)
    table.find_or_insert(array(2, 2))
    with table.pinned(array(3)):
        pass
    table.touch(table.find(array(MARKED, 77)))
    table.scatter(array(5), np.ones((1, 1)))
    table.find(array(1))
    table.gather(array(1))
    stamps = {key: stamp for keys, _, stamps in table.items() for key, stamp in zip(keys.tolist(), stamps, strict=True)}
    assert stamps == {1: 0, 2: 10, 3: 10, 4: 0, 5: 10, MARKED: 10}
    assert table.sweep(older_than=10) == 2 and set(contents(table)) == {2, 3, 5, MARKED}
    copy = Table(1, track_age=True)
    copy.load(table.items())
    assert copy.sweep(older_than=11) == 4 and len(copy) == 0


@pytest.mark.parametrize("swept", [1 << 16, 50])
def test_sweep_asks_about_each_row(seed, swept, monkeypatch):
    """By chunks of 50 slots too: rows that a removal pulls over the edge of a chunk have been judged."""
    monkeypatch.setattr("bitlane.sparse.tables.table._SWEPT", swept)
    keys = some_keys(seed, 3000)
    table = Table(2)
    table.scatter(keys, np.arange(2 * len(keys), dtype=np.float32).reshape(-1, 2) % 10)
    assert table.sweep(lambda keys, rows: rows[:, 0] != 4) == (np.arange(0, 2 * len(keys), 2) % 10 == 4).sum()
    assert not any((rows[:, 0] == 4).any() for _, rows in table.items())
    the_layout_is_right(table)
    with pytest.raises(ZeroDivisionError):
        table.sweep(lambda keys, rows: 1 // 0)
    assert table.sweep(lambda keys, rows: np.zeros(len(keys), bool)) > 0 and len(table) == 0


def test_items_come_once_while_rows_come_and_go(seed):
    """Between two chunks the table grows and shrinks; the keys that stay are yielded once each."""
    rng = np.random.default_rng(seed)
    keys = some_keys(seed, 20_000)
    stay, go = keys[::2], keys[1::2]
    table = Table(1)
    table.find_or_insert(keys)
    found = []
    for i, (chunk, _) in enumerate(table.items(512)):
        found += chunk.tolist()
        if i % 2:
            table.find_or_insert(rng.integers(0, FULL, 700, np.uint64))
        else:
            table.delete(go[i * 400 : (i + 1) * 400])
    assert len(found) == len(set(found)) and set(stay.tolist()) <= set(found)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_last_line_overflows(seed, share):
    """Many words of the last line, and more than the last slots take: while others come, and after they are gone."""
    rng = np.random.default_rng(seed)
    crowd = np.uint64(FULL) - np.arange(int(share * 6000), dtype=np.uint64)
    others = rng.integers(0, FULL - 10_000, 6000 - len(crowd), np.uint64)
    table = Table(2)
    for batch in np.array_split(rng.permutation(np.concatenate([crowd, others])), 30):
        keys = keys_of(batch)
        table.scatter(keys, np.repeat((batch % np.uint64(999))[:, None], 2, axis=1))
        the_layout_is_right(table)
    for batch in np.array_split(others, 7):
        table.delete(keys_of(batch))
        the_layout_is_right(table)
    assert len(table) == len(crowd)
    np.testing.assert_array_equal(table.gather(keys_of(crowd))[:, 1], crowd % np.uint64(999))


@pytest.mark.parametrize("words", ["ascending", "descending", "first line"])
def test_words_that_crowd_are_kept(words):
    """100,000 words that all want the same few lines."""
    table = Table(1)
    crowd = np.arange(100_000, dtype=np.uint64) << np.uint64(20 if words == "first line" else 40)
    batches = np.array_split(crowd, 20)
    for batch in batches if words != "descending" else reversed(batches):
        table.find_or_insert(keys_of(batch))
    assert len(table) == 100_000 and (table.find(keys_of(crowd)) >= 0).all()
    the_layout_is_right(table)


def test_a_batch_moves_a_crowd_once():
    """400,000 words of one line make room for 60,000 before them. A move for each of these would be 10^11 bytes."""
    table = Table(1)
    table.find_or_insert(keys_of(np.arange(100_000, 500_000, dtype=np.uint64)))
    keys = keys_of(np.arange(60_000, dtype=np.uint64))
    begin = time.thread_time()
    table.find_or_insert(keys)
    assert time.thread_time() - begin < 3  # about 0.03 on an idle machine
    assert (table.find(keys) >= 0).all()
    begin = time.thread_time()
    table.delete(keys)
    assert time.thread_time() - begin < 3
    assert len(table) == 400_000


def test_growth_and_shrinking_copy_nothing(seed):
    keys = some_keys(seed, 300_000)
    table = Table(1)
    table.find_or_insert(keys[:150_000])
    arrays = (table._storage._words, table._storage._rows)
    mappings = [array._mapping for array in arrays]
    assert None not in mappings
    table.scatter(keys, np.ones((len(keys), 1)))
    table.delete(keys[:100_000])
    table.sweep(lambda keys, rows: keys % np.uint64(5) > 0)
    assert all(array._mapping is mapping for array, mapping in zip(arrays, mappings, strict=True))


def test_a_view_that_is_held_does_no_harm(seed):
    keys = some_keys(seed, 150_000)
    table = Table(1)
    table.scatter(keys[::2], np.ones((len(keys[::2]), 1)))
    rows = table.rows
    table.scatter(keys, np.full((len(keys), 1), 2.0))
    assert len(table.rows) > len(rows) and not np.shares_memory(rows, table.rows)
    assert set(np.unique(rows)) <= {0, 1, 2}
    assert (table.gather(keys) == 2).all()


def test_without_memory_the_table_stays_whole(seed, monkeypatch):
    """Each growth of an array fails once; afterwards the table goes on."""
    keys = some_keys(seed, 2000)
    real = ResizableArray.resize

    class Memory:
        left = 0

        def resize(self, array, length):
            self.left -= 1
            if self.left == 0:
                raise OSError("Cannot allocate memory")
            real(array, length)

    memory = Memory()
    for breaks in (*range(4, 40), 60, 61, 62, 100, 101, 102):
        memory.left = breaks
        monkeypatch.setattr(ResizableArray, "resize", lambda array, length: memory.resize(array, length))
        table = Table(2, track_age=True)
        with pytest.raises(OSError, match="Cannot allocate"):
            table.find_or_insert(keys)
        monkeypatch.undo()
        the_layout_is_right(table)
        assert sum(len(chunk[0]) for chunk in table.items()) == len(table) < len(keys)
        table.scatter(keys, np.ones((len(keys), 2)))
        assert len(table) == len(keys) and (table.gather(keys) == 1).all()


def test_rows_do_not_move_under_who_uses_them():
    table = Table(1)
    with table.pinned(array(1, 2)) as slots:
        table.rows[slots] = 5
        assert table.find_or_insert(array(2)) == slots[1]
        with pytest.raises(BitlaneError, match="inside `updating`"):
            table.find_or_insert(array(3))
    with table.updating(), pytest.raises(BitlaneError, match="inside `updating`"):
        table.delete(array(1))
    with table.frozen():
        table.find_or_insert(array(3))
        assert len(next(table.items())[0]) == 3


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda table: Table(0), "width of a table must be at least 1; got 0"),
        (lambda table: table.find(np.arange(3)), r"keys must be a uint64 array of one dimension; got int64 \[3\]"),
        (lambda table: table.find([1, 2]), "got list"),
        (lambda table: table.find(np.zeros((2, 2), np.uint64)), r"uint64 \[2, 2\]"),
        (lambda table: table.scatter(array(1), [[1, 2]]), r"rows of shape \(1, 1\); got \(1, 2\)"),
        (lambda table: table.tick(-1), "clock of a table must be 0"),
        (lambda table: table.sweep(older_than=3), "track_age=True"),
        (lambda table: table.gather(array(1), np.zeros((1, 2), np.float32)), r"shape \(1, 1\)"),
        (lambda table: table.gather(array(1), np.zeros((1, 1))), "float64"),
    ],
)
def test_what_a_table_refuses(action, message):
    with pytest.raises(DataError, match=message):
        action(Table(1))
