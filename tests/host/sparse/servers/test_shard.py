"""A shard against local parameters: exactly once, and recovered to the bit."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import DRIVER, make_shards, payload
from tests.host.sparse.servers.test_log import LimitedDisk

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import checkpoints
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.log import WriteAheadLog
from bitlane.sparse.servers.segment import AppendFile
from bitlane.sparse.servers.shard import ParameterShard, ShardStopped
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.tables.sketch import Admission
from bitlane.support import atomic

BLOCKS = (ParameterBlock(1, FTRL()), ParameterBlock(3, AdaGrad(0.1), 0.05))
MATRICES = {"bias": MatrixSpec((1,), FTRL()), "layer": MatrixSpec((4, 3), AdaGrad())}
SPEC = ShardSpec(BLOCKS, 7, Admission(2, 4096, halve_every=500), True, MATRICES)
PLAIN = ShardSpec((ParameterBlock(1, SGD(1.0)),))


class Local:
    """What a shard must be equal to: the same updates on local parameters, and each worker's count."""

    def __init__(self, spec: ShardSpec, layer: np.ndarray):
        self.parameters = SparseParameters(spec.blocks, spec.seed, admission=spec.admission, track_age=spec.track_age)
        self.matrices = {"bias": Matrix((1,), FTRL()), "layer": Matrix((4, 3), AdaGrad(), layer)}

    def states(self) -> list[bytes]:
        return states(self.parameters, self.matrices)


def states(parameters: SparseParameters, matrices: dict[str, Matrix]) -> list[bytes]:
    """All that parameters consist of, as bytes."""
    rows = [np.concatenate(each).tobytes() for each in zip(*parameters.table.items(), strict=True)]
    rest = [each.tobytes() for _, each in sorted(parameters.table.state().items())]
    return [*rows, *rest, *(matrices[name].row.tobytes() for name in sorted(matrices))]


def one_random_update(
    draw: np.random.Generator, shard: ParameterShard, local: Local, sequences: dict[str, int]
) -> None:
    worker = str(draw.choice(["a", "b"]))
    keys = draw.permutation(400).astype(np.uint64)[: draw.integers(0, 60)]
    sequence, seen, stamp = sequences.get(worker, 0) + 1, int(draw.integers(0, 1000)), int(draw.integers(0, 1000))
    gradients, settings = draw.normal(size=(len(keys), 4)).astype(np.float32), {}
    if stamp > local.parameters.table.clock:
        local.parameters.table.tick(stamp)
    local.parameters.push(keys, gradients, seen, create=True)
    if draw.integers(0, 3) == 0:
        bias, layer = draw.normal(size=1).astype(np.float32), draw.normal(size=(4, 3)).astype(np.float32)
        settings = {"dense": np.concatenate([bias, layer.ravel()])}
        local.matrices["bias"].push(bias, seen)
        local.matrices["layer"].push(layer, seen)
    step = payload(keys, gradients, rows_seen=seen, stamp=stamp, **settings)
    sequences[worker] = shard.step(worker, sequence, step)
    assert sequences[worker] == sequence


def reopened(shard: ParameterShard) -> ParameterShard:
    shard.close()
    return ParameterShard.open(shard.folder)


def push(shard: ParameterShard, worker: str, sequence: int, gradient=1.0, count: int = 4) -> int:
    """Send a step with an equal gradient for each of the first keys, or [count, 1] gradients."""
    gradients = np.broadcast_to(np.asarray(gradient, np.float32), (count, 1))
    return shard.step(worker, sequence, payload(keys_to(count), gradients))


def weights(shard: ParameterShard, count: int = 4) -> np.ndarray:
    return shard.read(keys_to(count), "reader", 0, with_state=False).rows


def keys_to(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint64)


@pytest.fixture
def plain(tmp_path: Path):
    """A shard of one SGD weight a key, with 4 keys and one update by worker `w`, which moves nothing."""
    shard = ParameterShard.open(make_shards(tmp_path, PLAIN, 1)[0])
    assert push(shard, "w", 1, 0.0) == 1
    yield shard
    shard.close()


@pytest.mark.parametrize("checkpoint_share", [0.0, 0.1])
def test_recovery_is_to_the_bit(seed: int, tmp_path: Path, checkpoint_share: float) -> None:
    """Rows, stamps, sketch, clock, matrices and sequences, whatever the moments of checkpoints and deaths."""
    draw = np.random.default_rng(seed)
    layer = draw.normal(size=(4, 3)).astype(np.float32)
    folder = make_shards(tmp_path, SPEC, 1, {"layer": layer})[0]
    shard, local, sequences = ParameterShard.open(folder), Local(SPEC, layer), {}
    for _ in range(120):
        one_random_update(draw, shard, local, sequences)
        if draw.random() < checkpoint_share:
            shard.checkpoint()
        if draw.random() < 0.05:
            shard = reopened(shard)
    shard = reopened(shard)
    assert states(shard.parameters, shard.matrices) == local.states()
    assert {worker: shard.standing(worker)[0] for worker in sequences} == sequences
    assert len(shard.parameters.table) > 100
    shard.close()


def test_an_update_that_comes_again_is_acknowledged_and_not_applied(plain: ParameterShard) -> None:
    for _ in range(3):
        assert push(plain, "w", 2) == 2
    assert weights(plain).ravel().tolist() == [-1.0] * 4
    again = reopened(plain)
    assert push(again, "w", 2) == 2
    assert again.checkpoint()
    again = reopened(again)
    assert push(again, "w", 2) == 2
    assert weights(again).ravel().tolist() == [-1.0] * 4
    again.close()


def test_a_gap_is_an_error_and_changes_nothing(plain: ParameterShard) -> None:
    before = plain.status()["log_bytes"]
    with pytest.raises(DataError, match=r"^missing updates of worker 'w': got sequence 3, expected 2$"):
        push(plain, "w", 3)
    assert plain.status()["log_bytes"] == before and not weights(plain).any()
    assert push(plain, "w", 2) == 2


def test_updates_of_another_shape_are_refused(plain: ParameterShard) -> None:
    with pytest.raises(DataError, match=r"4 rows of 'float32' need 16 bytes; got 32"):
        plain.step("w", 2, payload(keys_to(4), np.ones((4, 2))))
    with pytest.raises(DataError, match="the matrices have 0 values; got"):
        plain.step("w", 2, payload(keys_to(4), np.ones((4, 1)), dense=np.ones(3, np.float32)))
    with pytest.raises(DataError, match="1 to 255 bytes"):
        push(plain, "", 1)
    assert plain.standing("w")[0] == 1


def test_updates_that_wait_are_written_together(plain: ParameterShard, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first is on its way to the disk, four others come."""
    append, sizes, busy, go = plain._log.append, [], threading.Event(), threading.Event()

    def slow(payloads):
        sizes.append(len(payloads))
        busy.set()
        assert go.wait(10)
        append(payloads)

    monkeypatch.setattr(plain._log, "append", slow)
    workers = [threading.Thread(target=push, args=(plain, f"w{i}", 1, 2**i)) for i in range(5)]
    workers[0].start()
    assert busy.wait(10)
    for worker in workers[1:]:
        worker.start()
    while len(plain._waiting) < 4:
        pass
    go.set()
    for worker in workers:
        worker.join()
    assert sizes == [1, 4]
    assert weights(plain).ravel().tolist() == [-31.0] * 4
    again = reopened(plain)
    assert weights(again).ravel().tolist() == [-31.0] * 4
    again.close()


def test_threads_of_many_workers_lose_nothing(seed: int, plain: ParameterShard) -> None:
    """Each sends each of its updates twice, as after a lost connection."""
    draw = np.random.default_rng(seed)
    gradients = draw.integers(-3, 4, (4, 50, 4, 1)).astype(np.float32)

    def work(worker: int) -> None:
        for sequence, gradient in enumerate(gradients[worker], 1):
            for _ in range(2):
                assert push(plain, f"w{worker}", sequence, gradient) == sequence

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = -gradients.sum((0, 1))
    assert np.array_equal(weights(plain), expected)
    again = reopened(plain)
    assert np.array_equal(weights(again), expected)
    again.close()


def test_a_full_disk_stops_updates_until_there_is_room(plain: ParameterShard) -> None:
    disk = LimitedDisk(10)
    plain._log._file.close()
    plain._log._file = disk(plain._log._file.path)
    for _ in range(2):
        with pytest.raises(BitlaneError, match="cannot be written: No space left on device"):
            push(plain, "w", 2)
    assert not weights(plain).any() and plain.standing("w")[0] == 1
    disk.room = float("inf")
    assert push(plain, "w", 2) == 2
    again = reopened(plain)
    assert weights(again).ravel().tolist() == [-1.0] * 4
    again.close()


def test_a_checkpoint_on_a_full_disk_keeps_the_log(plain: ParameterShard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    push(plain, "w", 2)
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "sync_tree", full)
        with pytest.raises(BitlaneError, match=r"checkpoint-0000002 cannot be written: No space left on device"):
            plain.checkpoint()
    assert not (plain.folder / checkpoints.PART).exists()
    push(plain, "w", 3)
    again = reopened(plain)
    assert weights(again).ravel().tolist() == [-2.0] * 4
    again.checkpoint()
    assert again.status()["log_segments"] == 1
    again.close()


def test_an_update_that_fails_halfway_stops_the_shard_and_recovery_applies_it(
    plain: ParameterShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(plain.parameters, "push", fail)
        with pytest.raises(ShardStopped, match="an update failed"):
            push(plain, "w", 2)
    for call in (lambda: weights(plain), lambda: push(plain, "w", 2), plain.checkpoint):
        with pytest.raises(ShardStopped, match="start it again"):
            call()
    again = reopened(plain)
    assert push(again, "w", 2) == 2
    assert weights(again).ravel().tolist() == [-1.0] * 4
    again.close()


def test_with_sync_an_update_is_on_the_disk_before_it_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = ParameterShard.open(make_shards(tmp_path, PLAIN, 1)[0], sync=True)
    push(shard, "w", 1, 0.0, count=1)
    seen: list[float] = []
    sync = AppendFile.sync
    monkeypatch.setattr(
        AppendFile, "sync", lambda file: (seen.append(float(shard.parameters.pull(keys_to(1))[0, 0])), sync(file))
    )
    push(shard, "w", 2, count=1)
    assert seen == [0.0] and weights(shard, 1)[0, 0] == -1

    def fail(file: AppendFile) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(AppendFile, "sync", fail)
    with pytest.raises(ShardStopped, match="Input/output error"):
        push(shard, "w", 3, count=1)
    with pytest.raises(ShardStopped):
        push(shard, "w", 3, count=1)
    shard.close()


def test_a_folder_has_one_process(plain: ParameterShard) -> None:
    with pytest.raises(DataError, match="is served by another process"):
        ParameterShard.open(plain.folder)


def test_folders_that_are_no_shards_are_refused(tmp_path: Path, plain: ParameterShard) -> None:
    with pytest.raises(DataError, match=r"is not a shard folder: it has no shard\.json"):
        ParameterShard.open(tmp_path)
    with pytest.raises(DataError, match="is in use: choose another folder"):
        ParameterShard.create(plain.folder, PLAIN)
    plain.close()
    state = current_folder(plain.folder) / "checkpoint-0000001" / "parameters.arrow"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"parameters\.arrow is damaged"):
        ParameterShard.open(plain.folder)
    (plain.folder / "shard.json").write_text('{"format": 9}')
    with pytest.raises(DataError, match="format 9; this version reads format 1"):
        ParameterShard.open(plain.folder)


def test_status_counts(plain: ParameterShard) -> None:
    status = plain.status()
    files = (current_folder(plain.folder) / "log").iterdir()
    assert status["rows"] == 4 and status["data_bytes"] == 48 and status["sequences"] == {DRIVER: 1, "w": 1}
    assert status["log_bytes"] == sum(path.stat().st_size for path in files) and status["log_segments"] == 1
    assert status["memory_over_data"] == status["bytes"] / 48 and status["checkpoint"] == 1


def test_a_log_of_another_order_is_refused(plain: ParameterShard) -> None:
    """Two updates of one worker with the same number cannot come from a shard."""
    push(plain, "w", 2)
    plain.close()
    records: list[bytes] = []
    log = WriteAheadLog.open(current_folder(plain.folder) / "log", 1, lambda record: records.append(bytes(record)))
    log.append([[records[-1]]])
    log.close()
    with pytest.raises(DataError, match="is damaged: 2 follows 2 of w"):
        ParameterShard.open(plain.folder)
