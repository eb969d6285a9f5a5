"""The table of residuals against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.sparse.workers.residuals import ResidualTable


def content(table: ResidualTable) -> dict[int, list[int]]:
    return dict(zip(table.keys[: table.count].tolist(), table.rows[: table.count].tolist(), strict=True))


@pytest.mark.parametrize("capacity", [1, 7, 64])
def test_any_sequence_is_that_of_a_dictionary(capacity: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    edges = np.array([0, (1 << 64) - 1], np.uint64)
    pool = np.unique(np.append(draw.integers(0, 1 << 64, 3 * capacity, np.uint64), edges))
    table, wanted = ResidualTable(capacity, 3), dict[int, list[int]]()
    memory = table.nbytes
    for _ in range(400):
        if draw.random() < 0.5:
            absent = np.array([key for key in pool.tolist() if key not in wanted], np.uint64)
            keys = draw.permutation(absent)[: draw.integers(0, capacity - len(wanted) + 1)]
            rows = draw.integers(-(1 << 31), 1 << 31, (len(keys), 3)).astype(np.int32)
            table.insert(keys, rows)
            wanted |= dict(zip(keys.tolist(), rows.tolist(), strict=True))
        else:
            places = draw.permutation(table.count)[: draw.integers(0, table.count + 1)]
            for key in table.keys[places].tolist():
                del wanted[key]
            table.remove(places)
        assert content(table) == wanted
        places = table.find(pool)
        assert [key in wanted for key in pool.tolist()] == (places >= 0).tolist()
        assert np.array_equal(table.keys[places[places >= 0]], pool[places >= 0])
    assert table.nbytes == memory


def test_a_table_without_room_is_empty() -> None:
    table = ResidualTable(0, 2)
    assert table.find(np.array([0, 5], np.uint64)).tolist() == [-1, -1]
    table.insert(np.zeros(0, np.uint64), np.zeros((0, 2), np.int32))
    table.remove(np.zeros(0, np.int64))
    assert table.count == 0


def test_memory_of_a_row() -> None:
    for capacity in (1000, 1024, 1025):
        assert 8 + 4 * 9 + 8 <= ResidualTable(capacity, 9).nbytes / capacity <= 8 + 4 * 9 + 16.1
