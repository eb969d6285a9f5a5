"""Trainings on Ray: the bits of one machine, with kills of servers too; the run folder; resumption."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.ray_trainings import Shares, serving, write_rows
from tests.helpers.sparse_workers import train_alone

from bitlane.errors import DataError

pytest.importorskip("ray")

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.engines.engine import RayOptions, RayResult, RayTrainer
from bitlane.sparse.engines.serving import status_of_run
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.run_folder import RunFolder
from bitlane.sparse.workers.worker import WorkerOptions
from bitlane_studies.sparse.distributed import same_bits

WORKERS = 2


def spec_of(seed: int, batch_rows: int = 16) -> ModelSpec:
    return ModelSpec("fm", batch_rows=batch_rows, seed=seed % 1000, dense=SGD(0.05, decay=1e-3))


def train(
    run: RunFolder,
    spec: ModelSpec,
    shares: Shares,
    epochs: int,
    servers: int | None = None,
    statistics: StatisticsSettings | None = None,
) -> RayResult:
    options = RayOptions(WorkerOptions(shares.workers, epochs=epochs), servers, window_rows=200)
    with run:
        return RayTrainer(spec, shares, options, run=run, statistics=statistics).run()


@pytest.mark.slow
def test_the_bits_are_those_of_one_machine(seed: int, tmp_path: Path) -> None:
    """Model, windows, counts, and the status of the servers that have ended."""
    rows, spec = 700, spec_of(seed)
    shares = Shares(str(write_rows(tmp_path / "rows.ffm", seed, rows)), WORKERS)
    expected, _ = train_alone(spec, shares.batches(), 1, shares.batches()[0])  # before four processes compile the same
    result = train(RunFolder.create(tmp_path / "run", {}), spec, shares, 1, servers=2)
    assert same_bits(result.model, expected)
    assert (result.training.reason, result.training.rows_done, result.model.rows_seen) == ("finished", rows, rows)
    assert sum(window.quality.rows for window in result.training.windows) == rows
    assert result.counts.rows == rows and result.counts.read_bytes > 0
    found = status_of_run(tmp_path / "run")
    assert not found.running and len(found.servers) == 2
    assert sum(each["rows"] for each in found.servers) == len(result.model.parameters.table)


@pytest.mark.slow
def test_a_resumed_training_goes_on_with_more_servers(seed: int, tmp_path: Path) -> None:
    rows, spec, path = 700, spec_of(seed), tmp_path / "run"
    shares = Shares(str(write_rows(tmp_path / "rows.ffm", seed, rows)), WORKERS)
    train(RunFolder.create(path, {}), spec, shares, 1, servers=2)
    result = train(RunFolder.resume(path), spec, shares, 2, servers=3)
    assert (result.servers, result.training.rows_done, result.counts.rows) == (3, 2 * rows, rows)
    loaded = SparseModel.load(path / "model")
    assert same_bits(loaded, result.model) and loaded.rows_seen == 2 * rows
    lines = [line for line in read_log(path) if line["kind"] == "window"]
    assert sum(line["rows"] for line in lines) == 2 * rows
    assert {line["epoch"] for line in lines} == {0, 1}
    assert sorted(path.glob("servers/*")) == [path / "servers" / f"shard-{server}" for server in range(3)]
    with pytest.raises(DataError, match=r"^epochs=2: the training has already done 2"):
        train(RunFolder.resume(path), spec, shares, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("servers",), ("servers", "workers")])
def test_kills_lose_no_row_and_those_of_servers_change_no_bit(
    kinds: tuple[str, ...], seed: int, tmp_path: Path
) -> None:
    """A worker that dies when some servers have its step and others not computes it again from newer rows."""
    rows, spec = 6000, spec_of(seed, batch_rows=4)
    shares = Shares(str(write_rows(tmp_path / "rows.ffm", seed, rows)), WORKERS)
    killed: list[int] = []
    draw = np.random.default_rng(seed)
    killer = threading.Thread(target=kill_some, args=(tmp_path / "run", draw, killed, kinds))
    killer.start()
    counted = StatisticsSettings(tuple(range(4)), 4, batch_rows=50) if "workers" in kinds else None
    result = train(RunFolder.create(tmp_path / "run", {}), spec, shares, 4, servers=2, statistics=counted)
    killer.join()
    assert len(killed) == 2 * len(kinds), "the training was over before the kills"
    assert result.training.rows_done == result.model.rows_seen == 4 * rows
    if isinstance(result.model, EnrichedModel):
        assert counted is not None
        expected = Statistics(counted)  # of the last epoch, each row once
        expected.update(Batch.concatenate(shares.batches()))
        ((_, found, *_),), ((_, wanted, *_),) = (each.table.items() for each in (result.model.statistics, expected))
        assert np.array_equal(found, wanted) and result.model.statistics.rows_seen == rows
    else:
        assert same_bits(result.model, train_alone(spec, shares.batches(), 4, shares.batches()[0])[0])


def kill_some(run: Path, draw: np.random.Generator, killed: list[int], kinds: tuple[str, ...]) -> None:
    """Kill each process of some kinds once, at random moments of the training."""
    for kind, index in draw.permutation([(kind, index) for kind in kinds for index in range(2)]):
        for process in new_processes(run, str(kind), int(index), killed):
            time.sleep(float(draw.uniform(0, 0.5)))
            os.kill(process, signal.SIGKILL)
            killed.append(process)


def new_processes(run: Path, kind: str, index: int, killed: list[int]) -> Iterator[int]:
    """Wait for the process of a server or a worker while it is known, and yield it."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = serving(run).get(kind)
        if found and found[index]["pid"] not in (None, *killed):
            yield int(found[index]["pid"])
            return
        time.sleep(0.05)
