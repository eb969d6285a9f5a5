"""Lost connections that nobody closes, against requests that take long: the first are given up, the second are not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.bad_network import Faults, bad_network
from tests.helpers.sparse_servers import StepClient, addresses_of, make_shards, served, work_on_both

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import connection, heartbeats
from bitlane.sparse.servers.connection import DeadlineExceeded
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec

BLOCKS = (ParameterBlock(1, FTRL()), ParameterBlock(4, AdaGrad(0.1), 0.05))
SPEC = ShardSpec(BLOCKS, 7, matrices={"a": MatrixSpec((3, 4), AdaGrad()), "b": MatrixSpec((5,), FTRL())})
PLAIN = ShardSpec((ParameterBlock(1, SGD(0.25)),))
KEYS = np.arange(50, dtype=np.uint64)
ONES = np.ones((50, 1), np.float32)
NO_FAULTS = Faults(0, 0, 0)
LONG = 60.0  # seconds for a call, on a machine with other work
SILENT, BEAT = 1.0, 0.1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a connection as lost after a second."""
    monkeypatch.setattr(connection, "SILENT_SECONDS", SILENT)
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", BEAT)


class Forgetful(threading.Thread):
    """Lets a network forget its connections now and then; a context manager."""

    def __init__(self, seed: int, networks: list):
        super().__init__(daemon=True)
        self._draw, self._networks, self._stop_event = np.random.default_rng(seed), networks, threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stop_event.wait(float(self._draw.uniform(0.05, 1.5))):
            self._networks[self._draw.integers(len(self._networks))].forget()
            self.count += 1

    def __enter__(self) -> Forgetful:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self.join()


@pytest.mark.parametrize("losses", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_bits_survive_connections_that_are_lost_without_a_word(seed: int, tmp_path: Path, losses: int) -> None:
    draw, local = np.random.default_rng(seed), SparseParameters(BLOCKS, 7)
    matrices = {name: Matrix(each.shape, each.optimizer) for name, each in SPEC.matrices.items()}
    universe = draw.integers(0, 1 << 64, 300, np.uint64)
    with served(make_shards(tmp_path, SPEC, 2)) as services, contextlib.ExitStack() as stack:
        networks = [stack.enter_context(bad_network(each.port, seed, NO_FAULTS)) for each in services]
        client = stack.enter_context(StepClient([each.address for each in networks], deadline=LONG))
        forgetful, step = stack.enter_context(Forgetful(seed, networks)), 0
        while forgetful.count < losses:
            step += 1
            work_on_both(draw, universe, client, local, matrices, step)
        items = {
            int(key): row.tobytes()
            for service in services
            for keys, rows in service._shard.parameters.table.items()
            for key, row in zip(keys, rows, strict=True)
        }
        assert items == {
            int(key): row.tobytes() for keys, rows in local.table.items() for key, row in zip(keys, rows, strict=True)
        }


@contextlib.contextmanager
def held(shard: ParameterShard, seconds: float) -> Iterator[None]:
    """Keep a shard busy, as by a checkpoint."""
    begun = threading.Event()

    def hold() -> None:
        with shard.paused():
            begun.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    yield
    thread.join()


@pytest.mark.parametrize("lane", ["read", "step"])
def test_a_request_that_takes_long_is_not_sent_again(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    with (
        served(make_shards(tmp_path, PLAIN, 2)) as services,
        StepClient(addresses_of(services), deadline=LONG) as client,
    ):
        client.send(KEYS, ONES)
        before = [dict(each._clients) for each in services]
        slow = services[int(np.random.default_rng(seed).integers(2))]._shard
        monkeypatch.setattr(connection, "SILENT_SECONDS", 3.0)  # threads may wait for a processor that long
        with held(slow, 7.0):
            begin = time.monotonic()
            if lane == "read":
                assert (client.weights(KEYS) == -0.25).all()
            else:
                client.send(KEYS, ONES)
            assert time.monotonic() - begin > 6
        assert [dict(each._clients) for each in services] == before
        assert (client.weights(KEYS) == (-0.25 if lane == "read" else -0.5)).all()


def test_the_error_names_the_lost_server_and_not_the_others(seed: int, tmp_path: Path) -> None:
    with served(make_shards(tmp_path, PLAIN, 3)) as services, contextlib.ExitStack() as stack:
        networks = [stack.enter_context(bad_network(each.port, seed, NO_FAULTS)) for each in services]
        client = stack.enter_context(StepClient([each.address for each in networks], deadline=LONG))
        lost = networks[int(np.random.default_rng(seed).integers(3))]
        lost.silence()
        client.deadline = 4 * SILENT
        calls = (lambda: client.weights(KEYS), lambda: client.send(KEYS, ONES))
        for call in calls:
            with pytest.raises(BitlaneError) as error:
                call()
                client.flush()
            assert lost.address in str(error.value)
            assert not any(each.address in str(error.value) for each in networks if each is not lost)
        lost.speak()


def test_several_lost_servers_take_the_time_of_one(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 3.0)
    with served(make_shards(tmp_path, PLAIN, 5)) as services, contextlib.ExitStack() as stack:
        networks = [stack.enter_context(bad_network(each.port, seed, NO_FAULTS)) for each in services]
        client = stack.enter_context(StepClient([each.address for each in networks], deadline=LONG))
        client.send(KEYS, ONES)
        for network in networks:
            network.forget()
        begin = time.monotonic()
        assert (client.weights(KEYS) == -0.25).all()
        assert 3 <= time.monotonic() - begin < 12


def test_a_call_ends_at_its_deadline_though_signs_of_life_come(tmp_path: Path) -> None:
    with (
        served(make_shards(tmp_path, PLAIN, 1)) as services,
        StepClient(addresses_of(services), deadline=LONG) as client,
    ):
        client.send(KEYS, ONES)
        client.deadline = 2 * SILENT
        with held(services[0]._shard, 4 * SILENT), pytest.raises(DeadlineExceeded, match="did not answer in time"):
            client.weights(KEYS)
