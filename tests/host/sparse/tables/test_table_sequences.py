"""Any sequence of operations leaves a table with the rows of a dict, in order, within its memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.helpers.properties import share
from tests.helpers.sparse_tables import KEYS, keys_in_order, the_layout_is_right

from bitlane.sparse.tables.table import Table

pytest.importorskip("numba")

SOME_KEYS = st.lists(KEYS, max_size=60)
MANY = st.integers(1, 700)


def array(keys):
    return np.array(keys, np.uint64)


class TableSequence(RuleBasedStateMachine):
    """A table and a dict from key to (first value of the row, stamp)."""

    part: int | None = None  # slots that growing and shrinking move at once

    def new_table(self):
        table = Table(self.width, initial_rows=self.initial, track_age=self.track_age)
        if self.part is not None:
            table._storage.least_moved = self.part
            table._storage.growth_pace = table._storage.shrink_pace = 1
        return table

    @initialize(width=st.sampled_from([1, 2, 5]), track_age=st.booleans())
    def begin(self, width, track_age):
        self.width, self.track_age = width, track_age
        self.table = self.new_table()
        self.expected: dict[int, tuple[float, int]] = {}
        self.clock, self.value = 0, 0.0

    def initial(self, keys):
        return np.repeat((keys % np.uint64(1000)).astype(np.float32)[:, None], self.width, axis=1)

    def met(self, keys):
        for key in keys:
            self.expected[key] = (self.expected[key][0] if key in self.expected else float(key % 1000), self.clock)

    def some_of_them(self, seed, share):
        return [key for i, key in enumerate(self.expected) if (i * 2654435761 + seed) % 1000 < share]

    @rule(keys=SOME_KEYS)
    def find_or_insert(self, keys):
        slots = self.table.find_or_insert(array(keys))
        self.met(keys)
        assert (slots >= 0).all() and len(set(slots.tolist())) == len(set(keys))
        np.testing.assert_array_equal(self.table.rows[slots, -1], [self.expected[key][0] for key in keys])

    @rule(start=st.integers(0, 2**64 - 1), step=st.sampled_from([1, 2**32, 2**48 + 1, 0x9E3779B97F4A7C15]), count=MANY)
    def insert_many(self, start, step, count):
        keys = [(start + step * i) % 2**64 for i in range(count)]
        self.table.find_or_insert(array(keys))
        self.met(keys)

    @rule(keys=SOME_KEYS)
    def update(self, keys):
        self.value += 1
        values = self.value + np.arange(len(keys)) / 64
        self.table.scatter(array(keys), np.repeat(values.astype(np.float32)[:, None], self.width, axis=1))
        self.expected.update({key: (value, self.clock) for key, value in zip(keys, values.tolist(), strict=True)})

    @rule(keys=SOME_KEYS, seed=st.integers(0, 999), share=st.sampled_from([0, 10, 300, 1000]))
    def delete(self, keys, seed, share):
        keys = keys + self.some_of_them(seed, share)
        assert self.table.delete(array(keys)) == len(set(keys) & set(self.expected))
        for key in keys:
            self.expected.pop(key, None)

    @rule(seed=st.integers(0, 999), share=st.sampled_from([10, 300, 900]))
    def sweep(self, seed, share):
        gone = set(self.some_of_them(seed, share))

        def keep(keys, rows):
            assert [self.expected[key][0] for key in keys.tolist()] == rows[:, 0].tolist()
            return np.array([key not in gone for key in keys.tolist()])

        assert self.table.sweep(keep) == len(gone)
        for key in gone:
            del self.expected[key]

    @rule(passed=st.integers(0, 3))
    def tick(self, passed):
        self.clock += passed
        self.table.tick(self.clock)

    @precondition(lambda self: self.track_age)
    @rule(age=st.integers(0, 5))
    def expire(self, age):
        older_than = max(self.clock - age, 0)
        gone = [key for key, (_, stamp) in self.expected.items() if stamp < older_than]
        assert self.table.sweep(older_than=older_than) == len(gone)
        for key in gone:
            del self.expected[key]

    @rule(chunk=st.integers(1, 700))
    def snapshot_and_load(self, chunk):
        """A new table takes the rows of the old one, smallest words first."""
        new = self.new_table()
        new.load(self.table.items(chunk))
        new.restore(self.table.state())
        self.table = new

    @invariant()
    def the_table_is_the_dict(self):
        chunks = list(self.table.items(500))
        keys = [key for chunk in chunks for key in chunk[0].tolist()]
        assert len(keys) == len(self.expected) == len(self.table)
        assert keys == keys_in_order(self.expected)
        for column in range(self.width):
            values = [value for chunk in chunks for value in chunk[1][:, column].tolist()]
            assert values == [self.expected[key][0] for key in keys]
        if self.track_age:
            assert [s for chunk in chunks for s in chunk[2].tolist()] == [self.expected[key][1] for key in keys]

    @invariant()
    def each_key_is_found(self):
        keys = array(list(self.expected))
        slots = self.table.find(keys)
        assert (slots >= 0).all()
        np.testing.assert_array_equal(self.table.rows[slots, 0], [value for value, _ in self.expected.values()])
        absent = array([key for key in range(50) if key not in self.expected])
        assert (self.table.find(absent) == -1).all()
        assert not self.table.gather(absent).any()

    @invariant()
    def the_layout_follows_from_the_words(self):
        the_layout_is_right(self.table)


class TableSequenceByParts(TableSequence):
    """Growing and shrinking take so many steps that most operations meet two numbers of lines at once."""

    part = 24


test_any_sequence = TableSequence.TestCase
test_any_sequence.settings = share(0.02)
test_any_sequence_by_parts = TableSequenceByParts.TestCase
test_any_sequence_by_parts.settings = share(0.02)
