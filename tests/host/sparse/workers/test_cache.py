"""The cache against a dictionary that forgets nothing: what it has is right, and it has what fits."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.workers.cache import RowCache


def test_what_a_cache_has_is_what_was_put_last(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cache, last = RowCache(64, 3), {}
    names = np.concatenate([draw.integers(0, 1 << 64, 198, np.uint64), np.array([0, 2**64 - 1], np.uint64)])
    found = 0
    for clock in range(300):
        keys = names[draw.permutation(200)[: draw.integers(0, 30)]]
        rows, clocks = draw.normal(size=(len(keys), 3)).astype(np.float32), draw.integers(0, clock + 1, len(keys))
        cache.put(keys, rows, clocks)
        last.update({int(key): (row, at) for key, row, at in zip(keys, rows, clocks, strict=True)})
        oldest = int(draw.integers(0, clock + 1))
        for key, slot in zip(names, cache.find(names, oldest), strict=True):
            if slot >= 0:
                found += 1
                row, at = last[int(key)]
                assert at >= oldest and np.array_equal(cache.rows[slot], row) and cache.clocks[slot] == at
    assert found > 1000


def test_a_cache_that_is_large_enough_keeps_everything(seed: int) -> None:
    draw = np.random.default_rng(seed)
    keys = np.unique(draw.integers(0, 1 << 64, 50, np.uint64))
    cache = RowCache(4096, 2)
    cache.put(keys, np.ones((len(keys), 2), np.float32), np.full(len(keys), 5))
    assert np.all(cache.find(keys, 5) >= 0)
    assert np.all(cache.find(keys, 6) == -1)


def test_without_rows_nothing_is_kept() -> None:
    cache, keys = RowCache(0, 2), np.arange(9, dtype=np.uint64)
    cache.put(keys, np.ones((9, 2), np.float32), np.zeros(9, np.int64))
    assert np.all(cache.find(keys) == -1)
    with pytest.raises(DataError, match="0 or more rows; got -1"):
        RowCache(-1, 2)
