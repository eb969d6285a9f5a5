"""Statistics that servers count: the bits of one machine; each row is counted once, whatever stops or dies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_weights import weighted
from tests.helpers.sparse_workers import Rows, make_model_shards, train

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings, Tally
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.servers.counts import CountChunk, ShardCounts, joined
from bitlane.sparse.servers.reshard import reshard
from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
from bitlane.sparse.workers.worker import WorkerOptions
from bitlane_studies.sparse.distributed import same_bits

FIELDS = 4


def drawn(seed: int) -> tuple[np.random.Generator, ModelSpec, StatisticsSettings]:
    """A model and its statistics: any kind, sizes of minibatches and of what is counted at once, with half-lives."""
    rng = np.random.default_rng(seed)
    fields = tuple(sorted(rng.choice(FIELDS, int(rng.integers(1, FIELDS + 1)), replace=False).tolist()))
    kinds = tuple(rng.permutation(["rate", "count", "clicks"])[: int(rng.integers(1, 4))].tolist())
    settings = StatisticsSettings(
        fields,
        FIELDS,
        kinds,
        half_life=None if rng.random() < 0.3 else float(rng.choice([2.0, 30.0, 1000.0])),
        batch_rows=int(rng.integers(1, 100)),
    )
    spec = ModelSpec(
        str(rng.choice(["lr", "fm", "ffm"])),
        fields=FIELDS + settings.added,
        batch_rows=int(rng.integers(2, 40)),
        seed=seed % 1000,
    )
    return rng, spec, settings


def rows_of(rng: np.random.Generator, rows: int) -> Batch:
    """Rows, of which some have weights."""
    batch = planted_rows(int(rng.integers(1 << 30)), rows, keys=40)
    return weighted(batch, rng.uniform(0.1, 4, rows)) if rng.random() < 0.5 else batch


def counts_of(statistics: Statistics) -> list[Any]:
    keys, rows = (np.concatenate(each) for each in zip(*(chunk[:2] for chunk in statistics.table.items()), strict=True))
    return [keys.tobytes(), rows.tobytes(), statistics.totals()]


def assert_same(model: EnrichedModel, expected: EnrichedModel) -> None:
    assert same_bits(model.model, expected.model)
    assert counts_of(model.statistics) == counts_of(expected.statistics)


def test_one_worker_has_the_bits_of_a_local_training(seed: int, tmp_path: Path) -> None:
    """Periods end where a local training counts: with windows, epochs, weights and half-lives of any kind."""
    rng, spec, settings = drawn(seed)
    batch, epochs, window = rows_of(rng, 300), int(rng.integers(1, 3)), int(rng.integers(20, 200))
    local = EnrichedModel(SparseModel(spec), Statistics(settings))
    local.model._begun = True  # the intercept stays 0, as that of shards without first rows
    Trainer(local, Rows(batch), SparseTrainingOptions(epochs=epochs, window_rows=window)).run()
    folders = make_model_shards(tmp_path, spec, 2, settings)
    options = WorkerOptions(1, epochs=epochs, sweep_rows=window)
    model, _, _ = train(folders, spec, [batch], options, statistics=settings)
    assert_same(model, local)


def reference(
    spec: ModelSpec, settings: StatisticsSettings, shares: Sequence[Batch], epochs: int
) -> tuple[EnrichedModel, list[list[Any]]]:
    """Bulk-synchronous: at a clock all workers read the same model and counts, then step in their order.

    A worker's rows are counted when its period ends, those of each epoch by themselves.
    """
    model, size = SparseModel(spec), spec.batch_rows
    least = math.ceil(settings.batch_rows / len(shares))
    period = math.ceil(least / size) * size
    counted: dict[int, Statistics] = {epoch: Statistics(settings) for epoch in range(epochs)}
    todo = [[(epoch, at, share) for epoch in range(epochs) for at in range(0, share.rows, size)] for share in shares]
    scores: list[list[Any]] = [[] for _ in shares]
    learned = [0.0] * len(shares)
    for clock in range(max(map(len, todo))):
        steps = []
        for worker, each in enumerate(todo):
            if clock < len(each):
                epoch, at, share = each[clock]
                batch = counted[epoch].enrich(share.slice(at, at + size))
                keys, index = unique_keys(batch.keys)
                weights = model.parameters.weights_of(model.parameters.peek(keys))
                found, sparse, dense = model.gradients(batch, weights, index, model.pull_dense())
                scores[worker].append(found)
                steps.append((worker, epoch, at, share, keys, sparse, dense, round(learned[worker] * len(shares))))
                learned[worker] += batch.total_weight
        for _, epoch, at, share, keys, sparse, dense, seen in steps:
            model.parameters.push(keys, sparse, seen, create=True)
            for name, gradient in dense.items():
                model.matrices[name].push(gradient, seen)
            end = min(at + size, share.rows)
            if end % period == 0 or end == share.rows:
                counted[epoch].update(share.slice((end - 1) // period * period, end))
    return EnrichedModel(model, counted[epochs - 1]), scores


def test_several_workers_are_bulk_synchronous_to_the_bit(seed: int, tmp_path: Path) -> None:
    """Equal shares; the rows of a last, shorter period are counted at the latest with the first of the next epoch."""
    rng, spec, settings = drawn(seed)
    workers, epochs = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    shares = [rows_of(rng, 120) for _ in range(workers)]
    expected, scores = reference(spec, settings, shares, epochs)
    folders = make_model_shards(tmp_path, spec, int(rng.integers(1, 4)), settings)
    options = WorkerOptions(workers, epochs=epochs)
    model, _, scored = train(folders, spec, shares, options, statistics=settings)
    assert_same(model, expected)
    for found, wanted in zip(scored, scores, strict=True):
        assert np.array_equal(np.concatenate(found.scores), np.concatenate(wanted))


def test_a_training_that_stops_goes_on_with_its_counts(seed: int, tmp_path: Path) -> None:
    """The servers read their log, a checkpoint, or move to another number in between."""
    rng, spec, settings = drawn(seed)
    share, options = rows_of(rng, 300), WorkerOptions(1, epochs=2)
    folders = make_model_shards(tmp_path, spec, 2, settings)
    stop_at = int(rng.integers(1, 500))
    train(folders, spec, [share], options, stop_after=lambda rows: rows >= stop_at, statistics=settings)
    if rng.random() < 0.5:
        targets = [tmp_path / f"moved-{server}" for server in range(int(rng.integers(1, 4)))]
        reshard(folders, targets)
        folders = targets
    model, _, _ = train(folders, spec, [share], options, statistics=settings)
    assert_same(model, reference(spec, settings, [share], 2)[0])


class Death(Exception):
    """A worker ends without its last step, and the servers without a checkpoint."""


@pytest.mark.parametrize("staleness", [0, 3])
def test_no_row_is_counted_twice_or_lost(staleness: int, seed: int, tmp_path: Path) -> None:
    """All die, three times, while other workers go on; then each key has the sightings and clicks of all rows."""
    rng, spec, settings = drawn(seed)
    settings = StatisticsSettings(tuple(range(FIELDS)), FIELDS, batch_rows=settings.batch_rows)
    spec = ModelSpec("lr", batch_rows=8)
    shares = [planted_rows(int(rng.integers(1 << 30)), 200, keys=40) for _ in range(1 if staleness == 0 else 2)]
    folders = make_model_shards(tmp_path, spec, 2, settings)
    options = WorkerOptions(len(shares), staleness)
    for _ in range(3):
        fatal = int(rng.integers(1, 60))

        def die(rows: int, fatal: int = fatal) -> bool:
            if rows > fatal:
                raise Death
            return False

        with pytest.raises((Death, BitlaneError)):  # the latter: a read that is under way waits for the lost step
            train(folders, spec, shares, options, die, settings, deadline=0.3)
    model, _, _ = train(folders, spec, shares, options, statistics=settings)
    expected = Statistics(settings)
    expected.update(Batch.concatenate(shares))
    assert counts_of(model.statistics)[:2] == counts_of(expected)[:2]
    assert model.statistics.rows_seen == sum(share.rows for share in shares)


def test_epochs_that_all_have_left_are_forgotten() -> None:
    counts, rng = ShardCounts(StatisticsSettings((0,), 1)), np.random.default_rng(0)
    for worker, epoch in ((0, 0), (1, 0), (0, 1), (0, 2)):
        chunk = chunk_of(rng, epoch)
        counts.add(worker, chunk, 2)
    assert sorted(counts.epochs) == [0, 1, 2]
    counts.add(1, chunk_of(rng, 2), 2)
    assert sorted(counts.epochs) == [2] and counts.newest is counts.epochs[2]


def chunk_of(rng: np.random.Generator, epoch: int = 0, *, ends: bool = True) -> CountChunk:
    words = np.unique(rng.integers(0, 2**64, 50, np.uint64))
    sums = rng.integers(0, 9, (len(words), 2)) + (rng.random() if rng.random() < 0.5 else 0.0)
    return CountChunk(Tally(words, sums, float(rng.random()), float(rng.random())), epoch, ends)


def test_chunks_travel_as_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        chunk = chunk_of(rng, int(rng.integers(9)), ends=bool(rng.integers(2)))
        data = chunk.to_bytes()
        found = CountChunk.from_bytes(data)
        assert np.array_equal(found.tally.words, chunk.tally.words) and np.array_equal(
            found.tally.sums, chunk.tally.sums
        )
        assert (found.tally.rows, found.tally.clicks) == (chunk.tally.rows, chunk.tally.clicks)
        assert (found.epoch, found.ends) == (chunk.epoch, chunk.ends)
        with pytest.raises(DataError):
            CountChunk.from_bytes(data[: int(rng.integers(len(data)))])


def test_shards_with_other_landmarks_are_joined() -> None:
    """Servers that were ahead by some rows have moved the landmark of their half-lives before others."""
    settings, rng = StatisticsSettings((0,), 1, half_life=1.0), np.random.default_rng(0)
    one, other = Statistics(settings), Statistics(settings)
    chunk = chunk_of(rng).tally
    for statistics, more in ((one, 0), (other, 40)):
        statistics.count(chunk)
        statistics.rows_seen += more
        statistics.count(type(chunk)(chunk.words[:0], chunk.sums[:0], 1.0, 0.0))
    assert one.totals()["landmark"] != other.totals()["landmark"]
    ((_, expected, *_),) = one.table.items()
    ((_, rows, *_),) = joined([one, Statistics(settings), other][:1]).table.items()
    assert np.array_equal(rows, expected)
    empty = Statistics(settings)
    empty.restore(one.totals(), [])
    ((_, rows, *_),) = joined([empty, other]).table.items()
    assert np.allclose(rows, expected, rtol=1e-6)


def test_servers_refuse_what_they_cannot_count() -> None:
    with pytest.raises(DataError, match=r"unit='seconds' and sightings=1: servers count with unit='rows'"):
        ShardCounts(StatisticsSettings((0,), 1, unit="seconds"))
    with pytest.raises(DataError, match="sightings=2: servers count"):
        ShardCounts(StatisticsSettings((0,), 1, sightings=2))
