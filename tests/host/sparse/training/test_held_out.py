"""Held-out rows: the same in every epoch and run, and none of them in the training."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from tests.helpers.sparse_training import RowsSource

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.training import held_out
from bitlane.sparse.training.held_out import RowSplit

ROWS = 500


def numbered(rows: int = ROWS) -> Batch:
    """Each row has its number as its key."""
    return Batch(
        np.arange(rows, dtype=np.uint64),
        np.zeros(rows, np.uint16),
        np.ones(rows, np.float32),
        np.arange(rows + 1, dtype=np.int64),
        np.zeros(rows, np.float32),
    )


def rows_source() -> RowsSource:
    return RowsSource(numbered(), 37, ordered=True)


def numbers(part: RowSplit, epoch: int = 0, start: int = 0) -> list[int]:
    return [int(key) for batch in part.batches(epoch, start) for key in batch.keys]


def splitmix(number: int) -> int:
    """SplitMix64's output for the state `number`, in Python's integers."""
    z = (number + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_the_choice_is_splitmix64s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, fraction = rng.integers(0, 2**62, 200), float(rng.uniform(0.01, 0.99))
    expected = [splitmix(int(row)) < int(fraction * 2.0**64) for row in rows]
    assert is_held_out(rows, fraction).tolist() == expected


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.99])
def test_the_share_is_the_fraction(fraction: float) -> None:
    """The rows are the same in every run, so that this cannot fail by chance."""
    rows = 200_000
    share = is_held_out(np.arange(rows), fraction).mean()
    assert abs(share - fraction) < 4 * math.sqrt(fraction * (1 - fraction) / rows)


@pytest.mark.parametrize("shuffle", [0, 64])
def test_two_parts_are_all_rows(seed: int, shuffle: int) -> None:
    options = ReadOptions(batch_rows=30, shuffle_rows=shuffle, seed=seed)
    source = rows_source()
    test, train = RowSplit(source, 0.2, is_test=True), RowSplit(source, 0.2, is_test=False, options=options)
    held = np.flatnonzero(is_held_out(np.arange(ROWS), 0.2)).tolist()
    assert numbers(test) == numbers(test, epoch=3) == held
    for epoch in range(2):
        assert sorted(numbers(train, epoch)) == sorted(set(range(ROWS)) - set(held))
    assert (numbers(train, 0) == numbers(train, 1)) == (shuffle == 0)
    assert numbers(train, 1) == numbers(train, 1)


@pytest.mark.parametrize("shuffle", [0, 64])
def test_a_part_begins_at_any_of_its_rows(seed: int, shuffle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "_SCAN", 100)
    options = ReadOptions(batch_rows=30, shuffle_rows=shuffle, seed=seed)
    part = RowSplit(rows_source(), 0.2, is_test=False, options=options)
    whole = numbers(part, 1)
    for start in (0, 1, 63, 64, 65, 200, len(whole) - 1, len(whole)):
        assert numbers(part, 1, start) == whole[start:]


def test_batches_are_cut_where_a_whole_epoch_is_cut(seed: int) -> None:
    part = RowSplit(rows_source(), 0.2, is_test=False, options=ReadOptions(batch_rows=30))
    sizes = [batch.rows for batch in part.batches(0, 40)]
    assert sizes[0] == 20
    assert set(sizes[1:-1]) == {30}


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 7.0, math.nan])
def test_bad_fractions(fraction: float) -> None:
    with pytest.raises(DataError, match="is not between 0 and 1"):
        RowSplit(rows_source(), fraction, is_test=True)


def test_closing_ends_the_threads_and_errors_arrive() -> None:
    class Failing(RowsSource):
        def batches(self, epoch, start=0):
            yield from super().batches(epoch, start)
            raise BitlaneError("row 501: no label")

    before = set(threading.enumerate())
    part = RowSplit(Failing(numbered(), 10, ordered=True), 0.2, is_test=False, options=ReadOptions(batch_rows=10))
    batches = part.batches(0)
    next(batches)
    batches.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(BitlaneError, match="row 501"):
        numbers(part)
    assert set(threading.enumerate()) <= before
