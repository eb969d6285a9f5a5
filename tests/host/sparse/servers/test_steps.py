"""Steps as bytes, the clocks of workers, and trainings that move to other servers or come back from the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.reads import ReadTooEarly
from bitlane.sparse.servers.reshard import reshard
from bitlane.sparse.servers.rounds import TrainingRounds, worker_name
from bitlane.sparse.servers.row_codecs import GradientChunk, encode_chunks
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.servers.steps import WorkerStep

SPEC = ShardSpec((ParameterBlock(1, SGD(1.0)),), matrices={"bias": MatrixSpec((2,), SGD(1.0))}, track_age=True)
KEYS = np.array([0, 5, 2**64 - 1], np.uint64)


def step_of(worker: int, clock: int, gradient: float = -1.0, **settings) -> WorkerStep:
    chunk = GradientChunk("float32", KEYS, np.full((3, 1), gradient, np.float32))
    return WorkerStep(
        worker, clock, encode_chunks([chunk], pack_keys=True), np.full(2, gradient, np.float32), **settings
    )


def send(shard: ParameterShard, step: WorkerStep, number: int) -> int:
    return shard.step(worker_name(step.worker), number, step.to_bytes())


def test_a_step_comes_back_from_its_bytes() -> None:
    step = step_of(3, 1 << 40, rows_seen=1 << 50, stamp=7, oldest=2, drop_zeros=True, last=True, offset={"rows": 5})
    found = WorkerStep.from_bytes(step.to_bytes())
    assert (found.worker, found.clock, found.rows_seen, found.stamp, found.oldest) == (3, 1 << 40, 1 << 50, 7, 2)
    assert (found.drop_zeros, found.last, found.offset) == (True, True, {"rows": 5})
    keys, gradients = found.rows(1)
    assert np.array_equal(keys, KEYS) and np.array_equal(gradients, np.full((3, 1), -1.0)) and found.dense[0] == -1.0


def test_damaged_steps_are_refused(seed: int) -> None:
    """Cut anywhere, or changed in the sizes: one error, and no reading beyond the end."""
    data, draw = step_of(0, 0, offset={"rows": 5}).to_bytes(), np.random.default_rng(seed)
    for end in [0, 1, len(data) - 1, *draw.integers(0, len(data), 20)]:
        with pytest.raises(DataError):
            WorkerStep.from_bytes(data[:end].copy()).rows(1)


def test_held_steps_are_applied_in_the_order_of_clocks_and_workers() -> None:
    rounds = TrainingRounds()
    rounds.begin(3, 0, 10)
    assert rounds.accept(step_of(2, 10)) == []
    assert rounds.accept(step_of(2, 11)) == []
    assert rounds.accept(step_of(0, 10)) == []
    assert not rounds.may_read(11) and rounds.lagging(11) == [1]
    due = rounds.accept(step_of(1, 10))
    assert [(step.clock, step.worker) for step in due] == [(10, 0), (10, 1), (10, 2)]
    assert rounds.may_read(11) and not rounds.may_read(12)
    assert rounds.accept(step_of(0, 11, last=True)) == []
    due = rounds.accept(step_of(1, 11, last=True))
    assert [(step.clock, step.worker) for step in due] == [(11, 0), (11, 1), (11, 2)]
    assert rounds.may_read(12), "workers that have left hold nobody up"


def test_a_shard_comes_back_with_clocks_places_and_held_steps(tmp_path: Path) -> None:
    """From the log, and from a checkpoint."""
    ParameterShard.create(tmp_path / "s", SPEC)
    shard = ParameterShard.open(tmp_path / "s")
    shard.begin("driver", 1, 2, 0, 0)
    send(shard, step_of(1, 0, -8.0, offset={"rows": 9}), 1)
    for save in (False, True):
        if save:
            shard.checkpoint()
        shard.close()
        shard = ParameterShard.open(tmp_path / "s")
        assert not shard.parameters.pull(KEYS).any(), "the step of worker 1 waits for worker 0"
        assert shard.standing(worker_name(1)) == (1, 1, {"rows": 9})
        with pytest.raises(ReadTooEarly, match="at clock 1 a worker waits for worker 0"):
            shard.read(KEYS, worker_name(1), 1, with_state=False)
    send(shard, step_of(0, 0, -1.0), 1)
    assert np.array_equal(shard.read(KEYS, worker_name(1), 1, with_state=False).rows, np.full((3, 1), 9.0))
    send(shard, step_of(0, 0, -1.0), 1)
    assert np.array_equal(shard.matrices["bias"].pull(), [9.0, 9.0]), "a step that comes again changes nothing"
    shard.close()


def test_steps_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    ParameterShard.create(tmp_path / "s", SPEC)
    shard = ParameterShard.open(tmp_path / "s")
    with pytest.raises(DataError, match="got a step of worker 0, but the training has 0 workers"):
        send(shard, step_of(0, 0), 1)
    with pytest.raises(DataError, match="staleness must be at least 0; got -1"):
        shard.begin("driver", 1, 2, -1, 0)
    with pytest.raises(DataError, match="workers must be 1 to 65,536; got 0"):
        shard.begin("driver", 1, 0, 0, 0)
    shard.begin("driver", 1, 2, 0, 0)
    with pytest.raises(DataError, match="the matrices have 2 values"):
        send(shard, WorkerStep(0, 0, dense=np.ones(3, np.float32)), 1)
    assert shard.standing(worker_name(0))[0] == 0
    shard.close()


def test_rows_expire_by_steps(tmp_path: Path) -> None:
    ParameterShard.create(tmp_path / "s", SPEC)
    shard = ParameterShard.open(tmp_path / "s")
    shard.begin("driver", 1, 1, 1, 0)
    send(shard, step_of(0, 0, stamp=3), 1)
    chunk = GradientChunk("float32", KEYS[:1], np.ones((1, 1), np.float32))
    gradients = encode_chunks([chunk], pack_keys=False)
    send(shard, WorkerStep(0, 1, gradients, stamp=9, oldest=4), 2)
    assert shard.status()["rows"] == 1
    shard.close()
    shard = ParameterShard.open(tmp_path / "s")
    assert shard.status()["rows"] == 1 and shard.parameters.pull(KEYS)[0, 0] == 0.0
    shard.close()


def test_a_training_moves_to_other_servers_and_goes_on(tmp_path: Path) -> None:
    """Three shards of a clean end become two, with the workers' offsets; a training within a step is refused."""
    sources = [tmp_path / f"old-{server}" for server in range(3)]
    shards = []
    for server, folder in enumerate(sources):
        ParameterShard.create(folder, SPEC.placed(server, 3))
        shards.append(ParameterShard.open(folder))
        shards[-1].begin("driver", 1, 2, 0, 0)
    owners = SPEC.placed(0, 3).partition.owners(KEYS)
    for worker in (0, 1):
        for server, shard in enumerate(shards):
            if (worker, server) == (1, 2):
                continue
            keys = KEYS[owners == server]
            chunk = GradientChunk("float32", keys, np.full((len(keys), 1), -1.0, np.float32))
            step = WorkerStep(worker, 0, encode_chunks([chunk], pack_keys=True), last=True, offset={"rows": 4 + worker})
            send(shard, step, 1)
    for shard in shards:
        shard.close()
    targets = [tmp_path / f"new-{server}" for server in range(2)]
    with pytest.raises(DataError, match=r"ended within a step .*old-.*resume it with the old servers first"):
        reshard(sources, targets)
    assert not any(target.exists() for target in targets)
    shard = ParameterShard.open(sources[2])
    keys = KEYS[owners == 2]
    chunk = GradientChunk("float32", keys, np.full((len(keys), 1), -1.0, np.float32))
    send(shard, WorkerStep(1, 0, encode_chunks([chunk], pack_keys=True), last=True, offset={"rows": 5}), 1)
    shard.close()
    reshard(sources, targets)
    for server, target in enumerate(targets):
        shard = ParameterShard.open(target)
        assert shard.standing(worker_name(1)) == (1, 1, {"rows": 5})
        mine = KEYS[SPEC.placed(server, 2).partition.owners(KEYS) == server]
        assert np.array_equal(shard.parameters.pull(mine), np.full((len(mine), 1), 2.0))
        shard.close()
