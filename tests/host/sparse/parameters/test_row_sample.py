"""Samples of rows: the smallest digests with their counts, whatever the order, the batches and the threads."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.parameters.row_digests import digests_of
from bitlane.sparse.parameters.row_sample import FIRST, MOST_SEEN, SIZE, RowSample, observed, seen_rows

LARGEST = 2**64 - 1


def random_rows(rng: np.random.Generator, rows: int, kinds: int) -> Batch:
    """Rows of two keys, some of them equal."""
    which = rng.integers(0, kinds, rows)
    keys = np.stack([which, which + kinds], axis=1).astype(np.uint64).reshape(-1)
    values = np.tile(np.array([1.0, 0.25], np.float32), rows)
    times = rng.integers(0, 10**9, rows) if rng.random() < 0.5 else None
    return Batch(
        keys, np.zeros(2 * rows, np.uint16), values, 2 * np.arange(rows + 1), (which % 2).astype(np.float32), times
    )


def textbook(digests: list[int]) -> tuple[list[int], list[int], int]:
    counts = Counter(digests)
    kept = sorted(counts)[:SIZE]
    bound = kept[-1] if len(counts) > SIZE else LARGEST
    return kept, [min(counts[each], MOST_SEEN) for each in kept], bound


def test_a_sample_is_that_of_sets(seed: int) -> None:
    """In any order and any batches, and after it was written and read."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        rows = random_rows(rng, int(rng.integers(1, 60_000)), int(np.exp(rng.uniform(0, np.log(200_000)))))
        wanted = textbook(digests_of(rows).tolist())
        given = rows.take(rng.permutation(rows.rows))
        sample, at = RowSample(), 0
        while at < given.rows:
            size = int(rng.integers(1, 20_000))
            sample.add(given.slice(at, at + size))
            at += size
            if rng.random() < 0.3:
                sample = RowSample.from_json(sample.as_json())
        kept, counts, bound = sample.kept()
        assert (kept.tolist(), counts.tolist(), bound) == wanted
        assert sample.rows == sample.observed == rows.rows
        assert sample.times == (None if rows.times is None else (rows.times.min(), rows.times.max()))


def test_workers_and_threads_add_to_one_sample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, parts = random_rows(rng, 40_000, 30_000), 4
    one, other = RowSample(), RowSample()
    one.add(rows)
    shares = [rows.take(np.flatnonzero(np.arange(rows.rows) % parts == part)) for part in range(parts)]

    def add(share: Batch) -> None:
        for at in range(0, share.rows, 500):
            other.take(seen_rows(share.slice(at, at + 500), at))

    threads = [threading.Thread(target=add, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.as_json() == other.as_json()


def test_late_rows_are_observed_by_their_numbers(seed: int) -> None:
    """In any batches the same: all at first, then about a sixteenth, in blocks."""
    rng = np.random.default_rng(seed)
    total = FIRST + 400_000
    everything = observed(0, total)
    assert everything[:FIRST].tolist() == list(range(FIRST))
    assert abs(len(everything) - FIRST - 25_000) < 2_500
    parts, at = [], 0
    while at < total:
        size = min(int(rng.integers(1, 50_000)), total - at)
        parts.append(observed(at, size) + at)
        at += size
    assert np.concatenate(parts).tolist() == everything.tolist()


def test_digests_do_not_depend_on_order_and_hardly_on_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, width = 2000, 6
    keys = rng.integers(0, 2**63, (rows, width)).astype(np.uint64)
    values = np.where(rng.random((rows, width)) < 0.5, 1, rng.normal(scale=3, size=(rows, width))).astype(np.float32)

    def batch(order: np.ndarray, values: np.ndarray, labels: np.ndarray) -> Batch:
        given, numbers = (np.take_along_axis(each, order, axis=1).reshape(-1) for each in (keys, values))
        fields = rng.integers(0, 9, len(given)).astype(np.uint16)
        return Batch(given, fields, numbers.astype(np.float32), width * np.arange(rows + 1), labels)

    labels = rng.integers(0, 2, rows).astype(np.float32)
    straight, mixed = np.tile(np.arange(width), (rows, 1)), rng.permuted(np.tile(np.arange(width), (rows, 1)), axis=1)
    found = digests_of(batch(straight, values, labels))
    assert len(np.unique(found)) == rows
    assert np.array_equal(found, digests_of(batch(mixed, values, labels)))
    assert np.mean(found == digests_of(batch(mixed, np.round(values, 5), labels))) > 0.95
    assert not np.any(found == digests_of(batch(mixed, values, 1 - labels)))
    changed = values.copy()
    changed[:, 2] += 1
    assert not np.any(found == digests_of(batch(straight, changed, labels)))
    timed = batch(straight, values, labels)
    later = Batch(timed.keys, timed.fields, timed.values, timed.offsets, labels, np.arange(rows))
    assert not np.any(found == digests_of(later))


def test_features_of_zero_do_not_count() -> None:
    labels, offsets = np.ones(1, np.float32), np.array([0, 1])
    zeros = Batch(
        np.arange(2, dtype=np.uint64), np.zeros(2, np.uint16), np.array([1, 0], np.float32), 2 * offsets, labels
    )
    assert (
        digests_of(zeros)
        == digests_of(zeros.slice(0, 1))
        == digests_of(Batch(zeros.keys[:1], zeros.fields[:1], zeros.values[:1], offsets, labels))
    )


@pytest.mark.parametrize("change", [{"digests": "AAA"}, {"counts": ""}, {"rows": None}, {"times": [1]}, {"bound": -1}])
def test_damage_is_named(change: dict[str, object]) -> None:
    sample = RowSample()
    sample.add(random_rows(np.random.default_rng(0), 10, 100))
    with pytest.raises(DataError, match="the sample of the rows that a training has learned is damaged"):
        RowSample.from_json({**sample.as_json(), **change})
