"""Servers behind networks that cut, delay, repeat and fall silent, against local parameters, bit for bit."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.bad_network import Faults, bad_network, repeating_network
from tests.helpers.sparse_servers import StepClient, make_shards, served, without_sequences, work_on_both

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.connection import ConnectionLost, DeadlineExceeded
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.servers.updates import STEP

BLOCKS = (ParameterBlock(1, FTRL()), ParameterBlock(4, AdaGrad(0.1), 0.05))
SPEC = ShardSpec(BLOCKS, 7, matrices={"a": MatrixSpec((3, 4), AdaGrad()), "b": MatrixSpec((5,), FTRL())})
COUNTS = ShardSpec((ParameterBlock(1, SGD(0.25)),), matrices={"bias": MatrixSpec((2,), SGD(0.25))})
KEYS = np.arange(50, dtype=np.uint64)
ONES = np.ones((50, 1), np.float32)
LONG = 60.0  # seconds for a call, on a machine with other work
NO_FAULTS = Faults(0, 0, 0)

Network = Callable[[int, int], contextlib.AbstractContextManager]


@contextlib.contextmanager
def behind(network: Network, folders: Sequence[Path], seed: int) -> Iterator[tuple[list, list[ShardService]]]:
    """Serve shards, each behind a network."""
    with served(folders) as services, contextlib.ExitStack() as stack:
        yield [stack.enter_context(network(each.port, seed + place)) for place, each in enumerate(services)], services


def connected(networks: Sequence) -> StepClient:
    """Connect to the servers behind networks; again if that fails, as it does not try again itself."""
    end = time.monotonic() + LONG
    while True:
        try:
            return StepClient([each.address for each in networks], deadline=LONG)
        except ConnectionLost:
            assert time.monotonic() < end


class Repeats:
    """Counts the steps that reach shards again after they were applied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.count, due = 0, ParameterShard._due

        def counted(shard, update, sequences):
            self.count += update.kind == STEP and update.sequence <= shard._sequences.get(update.worker, 0)
            return due(shard, update, sequences)

        monkeypatch.setattr(ParameterShard, "_due", counted)


def items_of(parameters: Sequence[SparseParameters]) -> dict[int, bytes]:
    """All rows with the optimizers' state, by key."""
    return {
        int(key): row.tobytes()
        for each in parameters
        for keys, rows in each.table.items()
        for key, row in zip(keys, rows, strict=True)
    }


NETWORKS = {"cutting": bad_network, "repeating": repeating_network}


@pytest.mark.parametrize("steps", [25, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NETWORKS)
def test_one_worker_has_local_parameters_to_the_bit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, steps: int
) -> None:
    draw, repeats = np.random.default_rng(seed), Repeats(monkeypatch)
    local = SparseParameters(BLOCKS, 7)
    matrices = {name: Matrix(each.shape, each.optimizer) for name, each in SPEC.matrices.items()}
    universe = draw.integers(0, 1 << 64, 300, np.uint64)
    folders = make_shards(tmp_path, SPEC, 2)
    with (
        behind(NETWORKS[kind], folders, seed) as (networks, services),
        connected(networks) as client,
    ):
        step = 0
        while step < steps or (repeats.count < 3 and step < 2000):
            step += 1
            work_on_both(draw, universe, client, local, matrices, step)
        assert repeats.count >= 3
        assert items_of([each._shard.parameters for each in services]) == items_of([local])
    shards = [ParameterShard.open(folder) for folder in folders]
    assert items_of([each.parameters for each in shards]) == items_of([local])
    for each in shards:
        each.close()


class Counting(threading.Thread):
    """A worker that adds 1 to random keys, through networks of its own."""

    def __init__(self, seed: int, networks: Sequence, enough: Callable[[], bool]):
        super().__init__()
        self._draw, self._networks, self._enough = np.random.default_rng(seed), networks, enough
        self.counts, self.bias = np.zeros(len(KEYS), np.int64), 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with connected(self._networks) as client:
                steps = 0
                while steps < 12 or not self._enough():
                    steps += 1
                    self._step(client)
        except BaseException as error:
            self.error = error

    def _step(self, client: StepClient) -> None:
        chosen = self._draw.permutation(len(KEYS))[: self._draw.integers(1, 30)]
        assert (client.weights(KEYS[chosen]).ravel() <= -0.25 * self.counts[chosen]).all()
        bias = int(self._draw.random() < 0.2)
        client.send(KEYS[chosen], ONES[: len(chosen)], dense={"bias": np.full(2, bias, np.float32)})
        self.counts[chosen] += 1
        self.bias += bias


def count_by(seed: int, folders: Sequence[Path], network: Network, enough: Callable[[], bool]) -> tuple[bool, list]:
    """Let three workers count; return whether the servers have the sums, and what the workers raised."""
    with served(folders) as services, contextlib.ExitStack() as stack:
        workers = []
        for place in range(3):
            networks = [stack.enter_context(network(each.port, seed + 10 * place)) for each in services]
            workers.append(Counting(seed + place, networks, enough))
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        local, bias = SparseParameters(COUNTS.blocks), sum(each.bias for each in workers)
        for each in workers:
            for count in range(each.counts.max()):
                met = KEYS[each.counts > count]
                local.push(met, ONES[: len(met)], create=True)
        items = items_of([each._shard.parameters for each in services])
        found = [each._shard.matrices["bias"].pull() for each in services if each._shard.matrices]
        same = items == items_of([local]) and found[0].tolist() == [-0.25 * bias] * 2
        return same, [each.error for each in workers if each.error is not None]


@pytest.mark.parametrize("enough", [5, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NETWORKS)
def test_sums_of_several_workers_are_exact(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, enough: int
) -> None:
    repeats = Repeats(monkeypatch)
    holds, errors = count_by(seed, make_shards(tmp_path, COUNTS, 2), NETWORKS[kind], lambda: repeats.count >= enough)
    assert not errors and holds and repeats.count >= enough


@pytest.mark.parametrize("kind", NETWORKS)
def test_without_deduplication_sums_are_wrong(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The control: the test above can fail."""
    monkeypatch.setattr(ParameterShard, "_due", ParameterShard._due)  # put back at the end
    without_sequences()
    repeats = Repeats(monkeypatch)
    holds, errors = count_by(seed, make_shards(tmp_path, COUNTS, 2), NETWORKS[kind], lambda: repeats.count >= 1)
    assert not holds
    assert all("has updates of another client" in str(error) for error in errors)


def tasks() -> int:
    """Threads of this process, those of libraries too."""
    return len(os.listdir("/proc/self/task"))


def deadline_of(call: Callable[[], object]) -> str:
    """The message of a call that meets its deadline of a fifth of a second."""
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded) as error:
        call()
    assert time.monotonic() - begin < 10
    assert "\n" not in str(error.value) and "gRPC" not in str(error.value)
    return str(error.value)


def test_silence_meets_the_deadline_and_leaves_nothing_behind(seed: int, tmp_path: Path) -> None:
    folders = make_shards(tmp_path, COUNTS, 1)
    many = np.arange(2_000_000, dtype=np.uint64)  # more than the buffers on the way hold
    with behind(lambda port, seed: bad_network(port, seed, NO_FAULTS), folders, seed) as (networks, _):
        network = networks[0]
        with StepClient([network.address], deadline=LONG) as client:
            client.send(KEYS, ONES)
            threads = set(threading.enumerate())
            network.silence()
            client.deadline = 0.2
            calls = [
                lambda: client.weights(KEYS),
                lambda: client.weights(many),
                lambda: client.send(KEYS, ONES, dense={"bias": np.ones(2, np.float32)}),
                client.flush,
                client.dense,
                client.status,
                lambda: StepClient([network.address], deadline=0.2),
            ]
            message = f"server {network.address} did not answer in time"
            for call in calls:
                assert deadline_of(call).startswith(message)
            before = tasks()
            for call in calls:
                deadline_of(call)
            assert set(threading.enumerate()) <= threads and tasks() <= before + 8
            network.speak()
            client.deadline = LONG
            client.flush()
            assert (client.weights(KEYS) == -0.75).all() and client.dense()["bias"].tolist() == [-0.5] * 2


def test_a_network_without_a_server_behind_it_is_one_line(seed: int) -> None:
    with bad_network(1, seed) as network, pytest.raises(BitlaneError) as error:
        StepClient([network.address], deadline=1)
    assert str(error.value).startswith(f"server {network.address}: connection lost") and "\n" not in str(error.value)
