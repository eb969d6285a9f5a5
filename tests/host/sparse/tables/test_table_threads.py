"""Threads use one table at once: no update is lost, no row is read half moved."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers.sparse_tables import the_layout_is_right

from bitlane.sparse.tables.table import Table

pytest.importorskip("numba")

ROUNDS = 40


def test_updates_are_counted_while_rows_come_and_go(seed):
    """Two threads add to rows of their own, one inserts and removes others, one reads rows that nobody changes."""
    table = Table(2)
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2**64, 8000, np.uint64))
    constant, first, second, others = np.array_split(rng.permutation(keys), 4)
    table.scatter(constant, np.stack([constant % np.uint64(997), constant % np.uint64(991)], axis=1))
    done = threading.Event()

    def add(own):
        for _ in range(ROUNDS):
            with table.pinned(own) as slots:
                table.rows[slots] += 1

    def come_and_go():
        count = 0
        while not done.is_set():
            for part in np.array_split(others, 5):
                table.find_or_insert(part)
            assert table.delete(others[: len(others) // 2]) == len(others) // 2
            table.sweep(lambda keys, rows: ~np.isin(keys, others))
            count += 1
        return count

    def read():
        count = 0
        while not done.is_set():
            rows = table.gather(constant)
            assert (rows[:, 0] == constant % np.uint64(997)).all() and (rows[:, 1] == constant % np.uint64(991)).all()
            listed = np.concatenate([chunk[0] for chunk in table.items(1000)])
            assert len(np.unique(listed)) == len(listed) and np.isin(constant, listed).all()
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        busy = [pool.submit(come_and_go), pool.submit(read)]
        adding = [pool.submit(add, own) for own in (first, second)]
        try:
            for future in adding:
                future.result(60)
        finally:
            done.set()
        assert all(future.result(60) > 0 for future in busy)
    assert (table.gather(np.concatenate([first, second])) == ROUNDS).all()
    the_layout_is_right(table)


def test_threads_that_insert_the_same_keys_insert_them_once(seed):
    table = Table(1, initial_rows=lambda keys: (keys % np.uint64(1000))[:, None])
    keys = np.unique(np.random.default_rng(seed).integers(0, 2**64, 20_000, np.uint64))
    barrier = threading.Barrier(4)

    def insert(number):
        order = np.random.default_rng([seed, number]).permutation(keys)
        barrier.wait()
        for part in np.array_split(order, 20):
            with table.pinned(part) as slots:
                np.testing.assert_array_equal(table.rows[slots, 0], part % np.uint64(1000))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(insert, range(4)))
    assert len(table) == len(keys)
    the_layout_is_right(table)


def test_a_frozen_table_is_a_snapshot(seed):
    """Pairs of rows change together; inside `frozen`, both have the same value."""
    table = Table(1)
    keys = np.unique(np.random.default_rng(seed).integers(0, 2**64, 3000, np.uint64))
    keys = keys[: len(keys) // 2 * 2]
    table.find_or_insert(keys)
    done = threading.Event()

    def update():
        while not done.is_set():
            with table.pinned(keys) as slots:
                for some in np.split(slots, 2):
                    table.rows[some] += 1

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(update)
        try:
            for _ in range(20):
                with table.frozen():
                    values = {value for _, rows in table.items(100) for value in rows[:, 0].tolist()}
                assert len(values) == 1
        finally:
            done.set()
        future.result(30)
