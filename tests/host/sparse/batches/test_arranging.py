"""The order of an epoch: cut, shuffled within groups, and taken up anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.helpers.sparse_text import assert_same, random_batch, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.arranging import arranged, file_order, split_start, take
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import MemorySource


def cut(batch: Batch, rng: np.random.Generator, first: int = 0) -> Iterator[Batch]:
    """The rows from `first` on, in parts of any size."""
    while first < batch.rows:
        stop = first + int(rng.integers(0, 20))
        yield batch.slice(first, stop)
        first = min(stop, batch.rows)


def arrange(
    batch: Batch, options: ReadOptions, rng: np.random.Generator, epoch: int = 0, start: int = 0
) -> list[Batch]:
    first, inner = split_start(start, options.shuffle_rows)
    return list(arranged(cut(batch, rng, first), options, epoch, (first, inner)))


def test_batches_have_their_rows_whatever_the_parts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 103, times=True)
    found = arrange(batch, ReadOptions(batch_rows=10), rng)
    assert [part.rows for part in found] == [10] * 10 + [3]
    assert_same(Batch.concatenate(found), batch)


@pytest.mark.parametrize("shuffle_rows", [0, 1, 7, 20, 64, 1000])
@pytest.mark.parametrize("batch_rows", [1, 8, 30, 500])
def test_every_start_goes_on_as_the_uninterrupted_epoch(shuffle_rows: int, batch_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 150, times=True)
    options = ReadOptions(batch_rows=batch_rows, shuffle_rows=shuffle_rows, seed=seed)
    whole = arrange(batch, options, rng, epoch=3)
    rows = Batch.concatenate(whole)
    ends = np.cumsum([part.rows for part in whole])
    for start in {0, 1, min(batch_rows, 149), 64, 65, 149, int(rng.integers(150))}:
        rest = arrange(batch, options, rng, epoch=3, start=start)
        assert_same(Batch.concatenate(rest), rows.slice(start, 150))
        assert (start + np.cumsum([part.rows for part in rest])).tolist() == ends[ends > start].tolist()
    assert arrange(batch, options, rng, epoch=3, start=150) == []


def test_groups_are_permuted_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 200, most=0)
    batch = Batch(batch.keys, batch.fields, batch.values, batch.offsets, np.arange(200, dtype=np.float32))
    options = ReadOptions(batch_rows=32, shuffle_rows=50, seed=seed)
    orders = []
    for epoch in (0, 1):
        labels = np.concatenate([part.labels for part in arrange(batch, options, rng, epoch)])
        for group in range(4):
            members = labels[50 * group : 50 * (group + 1)]
            assert sorted(members.tolist()) == list(range(50 * group, 50 * (group + 1)))
            orders.append(tuple((members - 50 * group).tolist()))
    assert len(set(orders)) == 8  # two equal permutations of 50 have a chance of 1 in 10^64


def test_another_seed_is_another_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 100, most=0)
    batch = Batch(batch.keys, batch.fields, batch.values, batch.offsets, np.arange(100, dtype=np.float32))
    found = [
        arrange(batch, ReadOptions(shuffle_rows=100, seed=each), rng)[0].labels.tolist() for each in (seed, seed + 1)
    ]
    assert found[0] != found[1]


def test_files_are_permuted_by_epoch(seed: int) -> None:
    options = ReadOptions(shuffle_files=True, seed=seed)
    orders = [file_order(50, options, epoch).tolist() for epoch in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(50)) == file_order(50, ReadOptions(seed=seed), 7).tolist()


def test_taking_is_that_of_the_batch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for rows, most in ((200, 6), (200, 0), (1, 3)):
        batch = random_batch(rng, rows, most=most, times=True)
        for order in (rng.integers(0, rows, 300), np.zeros(0, np.int64)):
            assert rows_of(take(batch, order)) == [rows_of(batch)[index] for index in order]
            assert_same(take(batch, order), batch.take(order))


def test_starts_below_zero_are_refused() -> None:
    with pytest.raises(DataError, match=r"start=-1 must be 0 or more"):
        split_start(-1, 10)


@pytest.mark.parametrize("shuffle_rows", [0, 40])
def test_a_batch_in_memory_is_a_source(shuffle_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 100)
    source = MemorySource(batch, batch_rows=16, shuffle_rows=shuffle_rows, seed=seed)
    wanted = arrange(batch, source.options, rng, epoch=2)
    for found, each in zip(source.batches(2), wanted, strict=True):
        assert_same(found, each)
    assert source.rows == source.epoch_rows == 100
    assert_same(Batch.concatenate(list(source.batches(2, 55))), Batch.concatenate(wanted).slice(55, 100))
    one = source.batches(0)
    assert next(one).rows == 16
    one.close()
