"""A server that was stopped while another one took its shard over: what it still does counts no more."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import ServerProcess, StepClient, make_shards, payload, server_processes, work_on_both

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import epochs
from bitlane.sparse.servers.connection import Connection, Identity
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.failures import ServerClosing
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.servers.wire import byte_batch

BLOCKS = (ParameterBlock(1, FTRL()), ParameterBlock(4, AdaGrad(0.1), 0.05))
SPEC = ShardSpec(BLOCKS, 7, matrices={"a": MatrixSpec((3, 4), AdaGrad()), "b": MatrixSpec((5,), FTRL())})
PLAIN = ShardSpec((ParameterBlock(1, SGD(0.25)),))
KEYS = np.arange(50, dtype=np.uint64)
ONES = np.ones((50, 1), np.float32)
LONG = 60.0


def items_of(parameters: SparseParameters) -> dict[int, bytes]:
    return {
        int(key): row.tobytes() for keys, rows in parameters.table.items() for key, row in zip(keys, rows, strict=True)
    }


def step(shard: ParameterShard, number: int, keys: np.ndarray) -> None:
    shard.step("worker-0", number, payload(keys, np.ones((len(keys), 1), np.float32)))


@pytest.mark.parametrize("moves", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_bits_survive_moves_while_the_old_servers_live(seed: int, tmp_path: Path, moves: int) -> None:
    """Servers are stopped at any moment, followed by others, and go on: their late work changes nothing."""
    draw, local = np.random.default_rng(seed), SparseParameters(BLOCKS, 7)
    matrices = {name: Matrix(each.shape, each.optimizer) for name, each in SPEC.matrices.items()}
    universe = draw.integers(0, 1 << 64, 300, np.uint64)
    (folder,) = make_shards(tmp_path, SPEC, 1)
    options = ("--take-over", "--checkpoint-bytes", str(draw.choice([2000, 20000, 1 << 30])))
    with server_processes([folder], *options) as processes:
        client = StepClient([processes[0].address], deadline=LONG, find=lambda _: processes[-1].address)

        def move() -> None:
            for _ in range(moves):
                time.sleep(float(draw_moves.uniform(0, 0.5)))
                old = processes[-1]
                old.halt()
                processes.append(ServerProcess(folder, *options))
                old.process.send_signal(signal.SIGCONT)

        draw_moves, mover, number = np.random.default_rng(seed + 1), threading.Thread(target=move), 0
        mover.start()
        while mover.is_alive() or number < 30:
            number += 1
            work_on_both(draw, universe, client, local, matrices, number)
        mover.join()
        for old in processes[:-1]:
            assert old.process.wait(20) == 1
        client.close()
        assert processes[-1].terminate() == 0
    shard = ParameterShard.open(folder)
    assert items_of(shard.parameters) == items_of(local)
    shard.close()


def test_a_late_step_of_a_stopped_server_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    with server_processes([folder], "--take-over") as processes:
        old = processes[0]
        late = Connection(old.address, Identity("worker-0", "late"), True)
        late.hello(time.monotonic() + LONG)
        late.send("step", byte_batch(payload(KEYS, ONES)), {"sequence": 1})
        late.receive("step")
        old.halt()
        late.send("step", byte_batch(payload(KEYS, ONES)), {"sequence": 2})  # waits in the socket of the old server
        begin = time.monotonic()
        processes.append(ServerProcess(folder, "--take-over"))
        assert time.monotonic() - begin < 20
        with StepClient([processes[1].address], deadline=LONG) as client:
            client.send(KEYS, ONES)
            assert (client.weights(KEYS) == -0.5).all()
            old.process.send_signal(signal.SIGCONT)
            with pytest.raises(ServerClosing, match="another server has taken it over"):
                late.receive("step")
            assert old.process.wait(20) == 1
            assert (client.weights(KEYS) == -0.5).all()
            assert client.status()[0]["sequences"]["worker-0"] == 1
        processes[1].kill()
        processes[1].start()
        with StepClient([processes[1].address], deadline=LONG) as client:
            assert (client.weights(KEYS) == -0.5).all()


def test_an_old_server_that_nobody_asks_ends_by_itself(tmp_path: Path) -> None:
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    with server_processes([folder], "--take-over") as processes:
        processes.append(ServerProcess(folder, "--take-over"))
        assert processes[0].process.wait(30) == 1
        assert processes[1].process.poll() is None


def test_a_shard_without_a_log_is_one_line(tmp_path: Path) -> None:
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    shutil.rmtree(current_folder(folder) / "log")
    with pytest.raises(BitlaneError, match=r"log is missing: .* is damaged") as error:
        ParameterShard.open(folder)
    assert "\n" not in str(error.value)


def test_an_old_server_can_do_nothing(seed: int, tmp_path: Path) -> None:
    """Each call of the old one, at any moment of the new one's life, is refused, and no file of the new one changes."""
    draw = np.random.default_rng(seed)
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    old = ParameterShard.open(folder)
    step(old, 1, KEYS)
    if draw.random() < 0.5:
        old.checkpoint()
    new = ParameterShard.open(folder, take_over=True)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    calls = [
        lambda: step(old, 2, KEYS),
        lambda: step(old, 1, KEYS),
        lambda: old.read(KEYS, "worker-0", 0, with_state=False),
        lambda: old.standing("worker-0"),
        lambda: old.begin("driver", 2, 4, 1, 0),
        old.checkpoint,
    ]
    for at in draw.permutation(len(calls)):
        with pytest.raises(ServerClosing, match="another server has taken it over"):
            calls[at]()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    step(new, 2, KEYS)
    old.close()
    new.close()
    last = ParameterShard.open(folder)
    assert (last.read(KEYS, "worker-0", 0, with_state=False).rows == -0.5).all()
    last.close()


@pytest.mark.parametrize("links", [True, False])
def test_a_server_that_writes_during_the_move_loses_no_acknowledged_step(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """The old server goes on with steps and checkpoints in a thread while new ones take over, again and again."""
    if not links:
        monkeypatch.setattr(epochs.os, "link", _no_links)
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    draw, acknowledged = np.random.default_rng(seed), 0
    shard = ParameterShard.open(folder)
    for _ in range(10):
        reached = [acknowledged]

        def write(shard: ParameterShard = shard, reached: list[int] = reached) -> None:
            with pytest.raises(ServerClosing):
                while True:
                    step(shard, reached[0] + 1, KEYS)
                    reached[0] += 1
                    if reached[0] % 7 == 0:
                        shard.checkpoint()

        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(float(draw.uniform(0, 0.05)))
        following = ParameterShard.open(folder, take_over=True)
        thread.join()
        shard.close()
        shard, acknowledged = following, following.standing("worker-0")[0]
        assert acknowledged - reached[0] in (0, 1)  # one may be in the log without an answer
        rows = shard.read(KEYS, "worker-0", 0, with_state=False).rows
        assert (rows == np.float32(-0.25) * np.float32(acknowledged)).all()
    shard.close()


def _no_links(*_: object) -> None:
    raise PermissionError(1, "no hard links")


def test_a_folder_of_before_epochs_is_taken_over_and_its_old_files_go(tmp_path: Path) -> None:
    ParameterShard.create(tmp_path / "s", PLAIN)
    assert current_folder(tmp_path / "s") == tmp_path / "s"
    ParameterShard.open(tmp_path / "s").close()
    assert sorted(os.listdir(tmp_path / "s")) == ["epoch", "epoch-0000001", "shard.json"]
    ParameterShard.open(tmp_path / "s").close()
    assert sorted(os.listdir(tmp_path / "s")) == ["epoch", "epoch-0000002", "shard.json"]


def test_without_take_over_a_served_folder_is_refused(tmp_path: Path) -> None:
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    shard = ParameterShard.open(folder)
    with pytest.raises(DataError, match=f"^{folder} is served by another process$"):
        ParameterShard.open(folder)
    step(shard, 1, KEYS)  # the first one goes on
    shard.close()


def test_a_folder_that_is_gone_ends_its_server(tmp_path: Path) -> None:
    (folder,) = make_shards(tmp_path, PLAIN, 1)
    shard = ParameterShard.open(folder)
    shutil.rmtree(folder)
    with pytest.raises(BitlaneError):
        step(shard, 1, KEYS)
    assert shard.stopped
    shard.close()
