"""Memory over data, by count, after every batch: growing, shrinking, and both in turn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_tables import FULL

from bitlane.sparse.tables.table import Table

pytest.importorskip("numba")

BOUND = 1.2


def random_keys(rng, count):
    return rng.integers(0, FULL, count, np.uint64, endpoint=True)


def within_bound(table):
    assert len(table) < 1000 or table.nbytes <= BOUND * table.data_nbytes, (
        len(table),
        table.nbytes / table.data_nbytes,
    )


def test_data_are_keys_and_rows():
    for width, track_age, size in ((1, False, 12), (18, False, 80), (1, True, 16)):
        table = Table(width, track_age=track_age)
        table.find_or_insert(np.arange(1000, dtype=np.uint64))
        assert table.data_nbytes == 1000 * size and table._storage.rows.shape[1] == width


@pytest.mark.parametrize("width", [1, 18])
@pytest.mark.parametrize("track_age", [False, True])
def test_growth_stays_within_the_bound(seed, width, track_age):
    """From nothing to 200,000 rows, by batches of all sizes up to 2 % of the rows."""
    rng = np.random.default_rng(seed)
    table = Table(width, track_age=track_age)
    while len(table) < 200_000:
        table.find_or_insert(random_keys(rng, rng.integers(1, max(30, len(table) // 50))))
        within_bound(table)


@pytest.mark.parametrize("seeds", range(5))
def test_small_tables_stay_within_the_bound(seed, seeds):
    """The last slots weigh most between 1,000 and 3,000 rows."""
    rng = np.random.default_rng([seed, seeds])
    table = Table(1)
    table.find_or_insert(random_keys(rng, 900))
    while len(table) < 3000:
        table.find_or_insert(random_keys(rng, rng.integers(1, 8)))
        within_bound(table)


@pytest.mark.parametrize("width", [1, 18])
def test_one_large_batch_ends_within_the_bound(seed, width):
    table = Table(width)
    table.find_or_insert(random_keys(np.random.default_rng(seed), 150_000))
    within_bound(table)


@pytest.mark.parametrize("width", [1, 18])
def test_removal_stays_within_the_bound(seed, width):
    """From 150,000 rows to 1,000, by batches of all sizes up to a tenth of the rows."""
    rng = np.random.default_rng(seed)
    table = Table(width)
    keys = np.unique(random_keys(rng, 150_000))
    table.find_or_insert(keys)
    keys = rng.permutation(keys)
    while len(keys) > 1000:
        count = rng.integers(1, max(2, int(len(keys) * 10 ** rng.uniform(-4, -1))))
        assert table.delete(keys[:count]) == count
        keys = keys[count:]
        within_bound(table)
    assert (table.find(keys) >= 0).all()


def test_rows_that_come_and_go_stay_within_the_bound(seed):
    """A stream: as many rows go as come."""
    rng = np.random.default_rng(seed)
    table = Table(1)
    keys = np.unique(random_keys(rng, 30_000))
    table.find_or_insert(keys)
    for _ in range(300):
        new = random_keys(rng, rng.integers(1, 2000))
        table.find_or_insert(new)
        within_bound(table)
        keys = np.concatenate([keys, new])
        count = rng.integers(1, 2000)
        table.delete(keys[:count])
        keys = keys[count:]
        within_bound(table)
    assert (table.find(keys) >= 0).all() and len(table) == len(np.unique(keys))


def test_a_sweep_ends_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    for share in (0.01, 0.1, 0.5, 0.97):
        table = Table(4)
        table.find_or_insert(random_keys(rng, 60_000))
        table.sweep(lambda keys, rows, share=share: rng.random(len(keys)) > share)
        within_bound(table)
