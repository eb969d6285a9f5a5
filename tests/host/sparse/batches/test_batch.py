"""A batch is checked where it is made; its operations are those of a list of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.sparse_text import random_batch, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch


def test_slices_are_those_of_a_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 50, times=True)
    rows = rows_of(batch)
    assert (batch.rows, batch.nnz) == (50, sum(len(features) for _, features in rows))
    for start, stop in [*rng.integers(-60, 70, (20, 2)).tolist(), (0, 50), (50, 50), (7, 3)]:
        part = batch.slice(start, stop)
        assert rows_of(part) == rows[start:stop]
        assert part.times is not None and batch.times is not None
        assert part.times.tolist() == batch.times.tolist()[start:stop]
        assert part.nnz == 0 or part.keys.base is not None  # a view


def test_taking_is_indexing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, 50, times=True)
    rows = rows_of(batch)
    for order in (rng.integers(0, 50, 80), rng.permutation(50), np.zeros(0, np.int64)):
        part = batch.take(order)
        assert rows_of(part) == [rows[index] for index in order]
        assert part.times is not None and batch.times is not None
        assert part.times.tolist() == [batch.times[index] for index in order]


def test_concatenation_is_that_of_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [random_batch(rng, rows) for rows in (3, 0, 10, 1)]
    assert rows_of(Batch.concatenate(parts)) == [row for part in parts for row in rows_of(part)]
    assert Batch.concatenate(parts[:1]) is parts[0]
    timed = [random_batch(rng, rows, times=True) for rows in (2, 5)]
    times = Batch.concatenate(timed).times
    assert times is not None
    assert times.tolist() == [time for part in timed if part.times is not None for time in part.times.tolist()]


def test_times_of_some_batches_are_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with pytest.raises(DataError, match=r"1 of 2 batches have times"):
        Batch.concatenate([random_batch(rng, 3, times=True), random_batch(rng, 3)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": np.zeros(3, np.int64)}, r"keys must be a uint64 array of one dimension; got int64 \[3\]"),
        ({"keys": [1, 2, 3]}, "keys must be a uint64 array of one dimension; got list"),
        ({"values": np.zeros((3, 1), np.float32)}, r"values must be a float32 array of one dimension; got float32"),
        ({"values": np.zeros(2, np.float32)}, "3 keys need as many fields and values; got 3 and 2"),
        ({"fields": np.zeros(4, np.uint16)}, "3 keys need as many fields and values; got 4 and 3"),
        ({"offsets": np.zeros(0, np.int64)}, "offsets must begin with 0 and end with the number of keys, 3"),
        ({"offsets": np.array([1, 2, 3])}, "offsets must begin with 0"),
        ({"offsets": np.array([0, 2, 2])}, "offsets must begin with 0 and end with the number of keys, 3"),
        ({"offsets": np.array([0, 4, 3])}, "offsets decrease after row 1"),
        ({"labels": np.zeros(3, np.float32)}, "2 rows need as many labels and times; got 3 labels"),
        ({"times": np.zeros(1, np.int64)}, "2 rows need as many labels and times"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, object], message: str) -> None:
    good = Batch(
        np.zeros(3, np.uint64),
        np.zeros(3, np.uint16),
        np.zeros(3, np.float32),
        np.array([0, 2, 3]),
        np.zeros(2, np.float32),
    )
    with pytest.raises(DataError, match=message):
        replace(good, **changes)  # type: ignore[arg-type]
