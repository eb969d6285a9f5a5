"""Parameters on several servers against local ones, bit for bit; lost connections and deadlines."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import (
    StepClient,
    addresses_of,
    make_shards,
    remote,
    served,
    server_processes,
    work_on_both,
)

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import DeadlineExceeded
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec

BLOCKS = (ParameterBlock(1, FTRL()), ParameterBlock(4, AdaGrad(0.1), 0.05), ParameterBlock(2, SGD(0.1, 0.01)))
LAYER = np.arange(12, dtype=np.float32).reshape(3, 4)
SPEC = ShardSpec(BLOCKS, 7, matrices={"a": MatrixSpec((3, 4), AdaGrad()), "b": MatrixSpec((5,), FTRL())})
PLAIN = ShardSpec((ParameterBlock(1, SGD(1.0)),))
KEYS = np.arange(50, dtype=np.uint64)
ONES = np.ones((50, 1), np.float32)


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_servers_are_the_local_parameters_to_the_bit(seed: int, tmp_path: Path, servers: int) -> None:
    draw = np.random.default_rng(seed)
    local = SparseParameters(BLOCKS, 7)
    matrices = {"a": Matrix((3, 4), AdaGrad(), LAYER), "b": Matrix((5,), FTRL())}
    universe = draw.integers(0, 1 << 64, 300, np.uint64)
    with remote(make_shards(tmp_path, SPEC, servers, {"a": LAYER})) as client:
        for seen in range(60):
            work_on_both(draw, universe, client, local, matrices, seen)
        assert np.array_equal(client.weights(universe), local.weights_of(local.peek(universe)))
        assert sum(each["rows"] for each in client.status()) == len(local.table)


def test_one_thread_reads_while_another_sends(tmp_path: Path) -> None:
    with remote(make_shards(tmp_path, PLAIN, 2)) as client:

        def send() -> None:
            for _ in range(100):
                client.send(KEYS, ONES)

        thread = threading.Thread(target=send)
        thread.start()
        seen = np.zeros((50, 1), np.float32)
        while thread.is_alive():
            found = client.weights(KEYS)
            assert (found <= seen).all()
            seen = found
        thread.join()
        assert (client.weights(KEYS) == -100).all()


@pytest.mark.parametrize("answer_is", ["another", "garbage"])
def test_a_lost_connection_before_the_answer_applies_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer_is: str
) -> None:
    """The server has applied the update; its answer never comes."""
    answer, lost = ShardService._step, [3]
    if answer_is == "garbage":
        to_bytes = wire.to_bytes
        monkeypatch.setattr(wire, "to_bytes", lambda record: b"{" if record.get("id") == -1 else to_bytes(record))

    def losing(self, batch, request, worker):
        found = answer(self, batch, request, worker)
        if lost[0]:
            lost[0] -= 1
            return None, {**found[1], "id": -1}
        return found

    monkeypatch.setattr(ShardService, "_step", losing)
    with remote(make_shards(tmp_path, PLAIN, 2)) as client:
        client.send(KEYS, ONES)
        assert lost == [0] and (client.weights(KEYS) == -1).all()


def test_an_update_that_failed_is_kept_and_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = make_shards(tmp_path, PLAIN, 2)
    with served(folders) as services, StepClient(addresses_of(services), deadline=5) as client:
        log = services[1]._shard._log

        def full(payloads):
            raise BitlaneError("the log cannot be written: No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(log, "append", full)
            for call in (lambda: client.send(KEYS, ONES), client.flush):
                with pytest.raises(BitlaneError, match="No space left on device"):
                    call()
            with pytest.raises(BitlaneError, match="No space left on device"):
                client.send(KEYS[::2], 4 * ONES[::2])  # waits behind the first
            assert -KEYS.size < client.weights(KEYS).sum() < 0  # the other server has its part
        client.flush()
        assert client.weights(KEYS).ravel().tolist() == [-5, -1] * 25
        client.send(KEYS, ONES)
        assert client.weights(KEYS).ravel().tolist() == [-6, -2] * 25


def test_a_refused_connection_is_an_error_at_once() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{place.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(BitlaneError, match=rf"^server {address}: connection refused$"):
            StepClient([address])
        assert time.monotonic() - begin < 5


def test_a_server_that_never_answers_meets_the_deadline() -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        begin = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="did not answer in time"):
            StepClient([f"127.0.0.1:{place.getsockname()[1]}"], deadline=0.5)
        assert time.monotonic() - begin < 3


def test_a_server_that_stands_still_meets_the_deadline_and_recovers(tmp_path: Path) -> None:
    folders = make_shards(tmp_path, PLAIN, 1)
    with server_processes(folders) as processes, StepClient([processes[0].address], deadline=1) as client:
        client.deadline = 30
        client.send(KEYS, ONES)
        client.deadline = 0.5
        processes[0].halt()
        begin = time.monotonic()
        for call in (lambda: client.weights(KEYS), lambda: client.send(KEYS, ONES), client.flush):
            with pytest.raises(DeadlineExceeded, match="did not answer in time"):
                call()
        assert time.monotonic() - begin < 10
        os.kill(processes[0].process.pid, signal.SIGCONT)
        client.deadline = 30
        client.flush()
        assert (client.weights(KEYS) == -2).all()


def test_addresses_of_another_order_or_model_are_refused(tmp_path: Path) -> None:
    folders = make_shards(tmp_path, PLAIN, 2)
    other = make_shards(tmp_path / "other", ShardSpec(PLAIN.blocks, 1), 2)
    with served([*folders, other[1]]) as services:
        first, second, another = addresses_of(services)
        with pytest.raises(DataError, match="is server 1 of 2; it was given as server 0 of 2"):
            StepClient([second, first])
        with pytest.raises(DataError, match="is server 0 of 2; it was given as server 0 of 1"):
            StepClient([first])
        with pytest.raises(DataError, match="serves another model than"):
            StepClient([first, another])
        with pytest.raises(DataError, match="at least one"):
            StepClient([])


def test_a_server_that_lost_updates_is_found_out(tmp_path: Path) -> None:
    folders = make_shards(tmp_path, PLAIN, 1)
    with served(folders) as services, StepClient(addresses_of(services), worker="w") as client:
        client.send(KEYS, ONES)
        client._updaters[0].close()
        services[0]._shard._sequences["w"] = 0
        with pytest.raises(BitlaneError, match="has lost updates of worker 'w': it has 0, and acknowledged 1"):
            client.send(KEYS, ONES)
