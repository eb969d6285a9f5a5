"""Which keys a table has changed, against a set, by every method that changes rows and by several threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.helpers.sparse_tables import keys_in_order

pytest.importorskip("numba")

from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.tables.changes import ChangeLog
from bitlane.sparse.tables.table import Table


def keys_of(*keys: int) -> np.ndarray:
    return np.array(keys, np.uint64)


def test_a_log_is_a_set_in_the_order_of_words(seed):
    rng = np.random.default_rng(seed)
    log, expected = ChangeLog(), set()
    log.add(keys_of(1))
    log.tracking = True
    for _ in range(30):
        keys = rng.integers(0, 100_000, rng.integers(0, 100_000), np.uint64)
        log.add(keys)
        expected.update(keys.tolist())
    found = log.take().tolist()
    assert found == sorted(found, key={key: i for i, key in enumerate(keys_in_order(expected))}.get)
    assert set(found) == expected and len(found) == len(expected)
    assert len(log.take()) == 0
    log.add(keys_of(3, 4, 3))
    assert set(log.take().tolist()) == {3, 4}


CHANGES = {
    "scatter of new keys": lambda table: table.scatter(keys_of(1, 50), np.ones((2, 1), np.float32)),
    "scatter of old keys": lambda table: table.scatter(keys_of(1, 2), np.ones((2, 1), np.float32)),
    "load": lambda table: table.load([(keys_of(1, 51), np.ones((2, 1), np.float32))]),
    "insertion": lambda table: table.find_or_insert(keys_of(1, 2, 52)),
    "pinned": lambda table: table.pinned(keys_of(1, 53)).__enter__(),
    "deletion": lambda table: table.delete(keys_of(1, 2, 54)),
    "sweep": lambda table: table.sweep(lambda keys, rows: keys > 3),
}


def contents(table: Table) -> dict[int, bytes]:
    return {int(key): row.tobytes() for keys, rows in table.items() for key, row in zip(keys, rows, strict=True)}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noted(name):
    table = Table(1)
    table.scatter(keys_of(1, 2, 3, 4, 5), np.zeros((5, 1), np.float32))
    table.changes.tracking = True
    before = contents(table)
    CHANGES[name](table)
    after = contents(table)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    noted = set(table.changes.take().tolist())
    assert noted >= changed
    if name != "pinned":
        assert changed or name == "insertion"


@pytest.mark.parametrize("create", [False, True])
def test_a_push_is_noted(create):
    parameters = SparseParameters([ParameterBlock(1, SGD(0.1))])
    parameters.pull(keys_of(1, 2), create=True)
    parameters.table.changes.tracking = True
    parameters.push(keys_of(2, 3), np.ones((2, 1), np.float32), create=create)
    assert set(parameters.table.changes.take().tolist()) == {2, 3}


def test_cuts_while_threads_push_miss_nothing(seed):
    """The rows of a copy that gets the changed keys of each cut are those of the table at the cut."""
    rng = np.random.default_rng(seed)
    parameters = SparseParameters([ParameterBlock(1, SGD(0.1), initial_scale=1.0)])
    table, copy = parameters.table, {}
    table.changes.tracking = True
    stop, pushed = threading.Event(), threading.Semaphore(0)

    def push(thread_seed: int) -> None:
        own = np.random.default_rng(thread_seed)
        while not stop.is_set():
            keys = np.unique(own.integers(0, 3000, 200, np.uint64))
            if own.random() < 0.1:
                table.delete(keys[:20])
            parameters.push(keys, own.standard_normal((len(keys), 1)).astype(np.float32), create=True)
            pushed.release()

    threads = [threading.Thread(target=push, args=(int(each),)) for each in rng.integers(0, 1 << 30, 3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            for _ in range(5):
                assert pushed.acquire(timeout=60)
            with table.frozen():
                keys = table.changes.take()
                slots = table.find(keys)
                rows, expected = table.gather(keys), contents(table)
            for key, row, slot in zip(keys.tolist(), rows, slots, strict=True):
                copy.pop(key, None)
                if slot >= 0:
                    copy[key] = row.tobytes()
            assert copy == expected
    finally:
        stop.set()
        for thread in threads:
            thread.join()
