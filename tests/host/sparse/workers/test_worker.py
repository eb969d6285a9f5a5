"""Workers with servers: staleness 0 is bulk-synchronous to the bit; stopped trainings go on; the cache counts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import counting_worker
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_servers import StepClient, addresses_of, make_shards, served
from tests.helpers.sparse_weights import weighted
from tests.helpers.sparse_workers import Rows, make_model_shards, train, train_alone

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.workers.pushing import PushSettings
from bitlane.sparse.workers.view import View
from bitlane.sparse.workers.worker import Worker, WorkerOptions
from bitlane_studies.sparse.distributed import same_bits

KINDS = ("lr", "fm", "ffm")


def shares_of(batch: Batch, workers: int) -> list[Batch]:
    """Parts of different lengths."""
    ends = np.cumsum(np.arange(1, workers + 1) + 3)
    ends = ends * batch.rows // ends[-1]
    return [batch.slice(int(first), int(last)) for first, last in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_without_staleness_the_bits_are_those_of_one_machine(kind: str, seed: int, tmp_path: Path) -> None:
    """Models and scores, with shares of different lengths and epochs that end within a minibatch."""
    spec = ModelSpec(kind, fields=4, batch_rows=16, seed=seed % 1000, dense=SGD(0.05, decay=1e-3))
    shares = shares_of(planted_rows(seed, 700), 4)
    folders = make_model_shards(tmp_path, spec, 2)
    model, _, scored = train(folders, spec, shares, WorkerOptions(4, epochs=2))
    expected, expected_scores = train_alone(spec, shares, 2)
    assert same_bits(model, expected)
    for found, wanted in zip(scored, expected_scores, strict=True):
        assert np.array_equal(np.concatenate(found.scores), np.concatenate(wanted.scores))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_one_machine(kind: str, seed: int, tmp_path: Path) -> None:
    """In bits, with a training that stops and goes on: rates that decay follow the weights of all rows."""
    spec = ModelSpec(kind, fields=4, batch_rows=16, seed=seed % 1000, dense=SGD(0.05, decay=1e-3))
    weights = np.random.default_rng(seed).uniform(0.1, 4, 300)
    shares = shares_of(weighted(planted_rows(seed, 300), weights), 2)
    folders = make_model_shards(tmp_path, spec, 2)
    train(folders, spec, shares, WorkerOptions(2, epochs=2), stop_after=lambda rows: rows > 60)
    model, *_ = train(folders, spec, shares, WorkerOptions(2, epochs=2))
    assert same_bits(model, train_alone(spec, shares, 2)[0])
    plain, _ = train_alone(spec, shares_of(planted_rows(seed, 300), 2), 2)
    assert not same_bits(model, plain)


@pytest.mark.parametrize("kind", KINDS)
def test_one_stale_worker_reads_its_own_steps(kind: str, seed: int, tmp_path: Path) -> None:
    """It equals the reference to the bit, by cache, rows under way and its own steps; nobody else writes."""
    spec = ModelSpec(kind, fields=4, batch_rows=8, seed=seed % 1000)
    shares = [planted_rows(seed, 400)]
    folders = make_model_shards(tmp_path, spec, 2)
    model, (worker,), _ = train(folders, spec, shares, WorkerOptions(1, staleness=3, cache_rows=64))
    assert same_bits(model, train_alone(spec, shares, 1)[0])
    assert worker.counts.hits > 0
    assert worker.counts.misses > 0


def test_rows_are_read_while_the_minibatch_before_is_learned(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most reads of a clock begin before the gradients of the clock before."""
    spec, events = ModelSpec("lr", batch_rows=10), []
    request, gradients = View.request, SparseModel.gradients

    def noted_request(self, keys, clock, wanted):
        events.append(clock)
        return request(self, keys, clock, wanted)

    def noted_gradients(self, *arguments):
        events.append("learn")
        return gradients(self, *arguments)

    monkeypatch.setattr(View, "request", noted_request)
    monkeypatch.setattr(SparseModel, "gradients", noted_gradients)
    train(make_model_shards(tmp_path, spec, 2), spec, [planted_rows(seed, 600)], WorkerOptions(1, staleness=1))
    learned_at = [at for at, event in enumerate(events) if event == "learn"]
    early = sum(clock in events[: learned_at[clock - 1]] for clock in range(1, 60))
    assert early > 20


def test_a_training_that_is_stopped_goes_on_with_the_same_bits(seed: int, tmp_path: Path) -> None:
    """All workers stop at some row, at different clocks; each goes on behind its last step."""
    spec = ModelSpec("fm", batch_rows=16, seed=seed % 1000)
    shares = [planted_rows(seed, 500)]
    folders = make_model_shards(tmp_path, spec, 2)
    options = WorkerOptions(1, epochs=2)
    _, (first,), _ = train(folders, spec, shares, options, stop_after=lambda rows: rows >= 300)
    assert 300 <= first.counts.rows < 400
    model, (second,), _ = train(folders, spec, shares, options)
    assert first.counts.rows + second.counts.rows == 1000
    expected = train_alone(spec, shares, 2)[0]
    assert len(model.parameters.table) == len(expected.parameters.table)
    assert same_bits(model, expected)


def test_workers_that_are_stopped_learn_each_row_once(seed: int, tmp_path: Path) -> None:
    spec = ModelSpec("fm", batch_rows=16, seed=seed % 1000)
    shares = shares_of(planted_rows(seed, 900), 3)
    folders = make_model_shards(tmp_path, spec, 2)
    options = WorkerOptions(3, staleness=2)
    _, first, _ = train(folders, spec, shares, options, stop_after=lambda rows: rows >= 100)
    _, second, _ = train(folders, spec, shares, options)
    learned = [one.counts.rows + two.counts.rows for one, two in zip(first, second, strict=True)]
    assert learned == [share.rows for share in shares]


@pytest.mark.parametrize("staleness", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_gradients_that_were_kept_back_arrive_at_the_end(staleness: int, tmp_path: Path) -> None:
    """Each row counts once for each of its keys, though a push has a tenth of the rows, and ternary ones."""
    folders = make_shards(tmp_path, counting_worker.SPEC, 2, begun=False)
    push = PushSettings("topk", share=0.1, residual_rows=100, debug=True)
    options = WorkerOptions(2, staleness, epochs=2, push=push)
    with served(folders) as services, ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        addresses = addresses_of(services)
        driver = stack.enter_context(TrainingServers(addresses, worker="driver"))
        driver.begin(2, staleness)
        workers = []
        for index in range(2):
            servers = stack.enter_context(TrainingServers(addresses, worker=worker_name(index)))
            model, rows = counting_worker.Counting(), Rows(counting_worker.rows_of(index))
            workers.append(Worker(index, model, servers, rows, options, lambda *_: None))
        for running in [pool.submit(worker.run, threading.Event()) for worker in workers]:
            running.result()
        counts, _ = counting_worker.counts_of([{"epoch": 2}] * 2)
        keys = np.array(sorted(counts), np.uint64)
        found = stack.enter_context(StepClient(addresses)).weights(keys)[:, 0]
    assert np.allclose(found, [counts[int(key)] for key in keys], rtol=0, atol=1e-3)
    assert all(worker.counts.residual_rows == 0 for worker in workers)


@pytest.mark.parametrize("options", [{"pull": "float16"}, {"pull": "int8"}, {"push": PushSettings("float16")}])
def test_rounded_pulls_and_pushes_learn_nearly_the_same(options: dict, seed: int, tmp_path: Path) -> None:
    spec = ModelSpec("fm", batch_rows=16, seed=seed % 1000)
    shares = shares_of(planted_rows(seed, 800), 2)
    model, _, _ = train(make_model_shards(tmp_path, spec, 2), spec, shares, WorkerOptions(2, epochs=3, **options))
    expected, _ = train_alone(spec, shares, 3)
    scores, wanted = (each.scores(shares[0]) for each in (model, expected))
    assert not np.array_equal(scores, wanted)
    assert np.sqrt(np.mean((scores - wanted) ** 2)) < 0.1 * np.std(wanted)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(DataError, match=r"^workers=0: must be at least 1$"):
        WorkerOptions(0)
    with pytest.raises(DataError, match=r"^pull='int4': choose one of float32, float16, int8$"):
        WorkerOptions(1, pull="int4")
    with pytest.raises(DataError, match=r"needs staleness=0"):
        WorkerOptions(1, staleness=1, pull="int8")
