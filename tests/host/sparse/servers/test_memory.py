"""Servers without memory: one line, the acknowledged updates stay, and no client waits for ever."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_servers import (
    ServerProcess,
    StepClient,
    addresses_of,
    make_shards,
    payload,
    remote,
    served,
    server_processes,
)

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

BLOCKS = (ParameterBlock(16, AdaGrad(), 0.05),)
PLAIN = ShardSpec((ParameterBlock(1, SGD(1.0)),))
BATCH = 20_000
MARGIN = 20 << 20  # bytes of address space that a server may add to what it has
KEYS = np.arange(4, dtype=np.uint64)
ONES = np.ones((4, 1), np.float32)
ADVICE = ": give the server more, or move the model to more servers"


def limit_memory(process: ServerProcess) -> None:
    pid = process.process.pid
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + MARGIN, hard))


def one_line(error: pytest.ExceptionInfo[BitlaneError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits the memory of another process")
def test_a_server_that_runs_out_of_memory_ends_and_recovers(
    seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The system gives no more: to the table, as a rule, or to a library that ends the process itself."""
    draw, local = np.random.default_rng(seed), SparseParameters(BLOCKS, 7)
    with (
        server_processes(make_shards(tmp_path, ShardSpec(BLOCKS, 7), 1)) as (process,),
        StepClient([process.address], deadline=60) as client,
    ):

        def update(batch: int) -> None:
            nonlocal late
            keys = np.arange(batch * BATCH, (batch + 1) * BATCH, dtype=np.uint64)
            gradients = draw.normal(size=(BATCH, 16)).astype(np.float32)
            late = partial(local.push, keys, gradients, create=True)
            client.send(keys, gradients)
            late()

        late, batch = None, 0
        update(0)
        limit_memory(process)
        client.deadline = 30  # a library that ends the process leaves nobody to answer
        with pytest.raises(BitlaneError) as error:
            while batch < 200:
                batch += 1
                update(batch)
        found = one_line(error)
        assert ("no memory is left (" in found and f"){ADVICE}; start it again" in found) or "gave up" in found
        assert process.process.wait(120) != 0
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(lines) == ("gave up" not in found) and all(ADVICE in line for line in lines)
        process.start()  # with all the memory
        client.deadline = 60
        client.flush()
        late()
        update(batch + 1)
        keys = np.arange((batch + 2) * BATCH, dtype=np.uint64)
        assert np.array_equal(client.weights(keys), local.weights_of(local.peek(keys)))
        assert client.status()[0]["rows"] == len(local.table)


def test_a_recovery_without_memory_is_one_line(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, ShardSpec(BLOCKS), 1)[0]
    shard = ParameterShard.open(folder)
    shard.step("w", 1, payload(np.arange(BATCH, dtype=np.uint64), np.zeros((BATCH, 16))))
    shard.close()
    command = [sys.executable, "-m", "tests.helpers.sparse_servers", "without_memory", "--folder", str(folder)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stdout) == (1, "")
    line = rf"error: {re.escape(str(folder))}: no memory is left \(Unable to map [\d,]+ bytes\){ADVICE}\n"
    assert re.fullmatch(line, found.stderr)
    shard = ParameterShard.open(folder)  # nothing has changed, and nobody holds it
    assert len(shard.parameters.table) == BATCH
    shard.close()


def test_a_checkpoint_that_memory_cannot_hold_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_shards(tmp_path, PLAIN, 1)[0]
    shard = ParameterShard.open(folder)
    shard.step("w", 1, payload(KEYS, ONES))
    shard.checkpoint()
    shard.close()

    def refuse(*_: object) -> None:
        raise wire.pyarrow.ArrowMemoryError("malloc of size 64 failed")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_arrays", refuse)
        with pytest.raises(MemoryError, match="malloc of size 64 failed"):
            ParameterShard.open(folder)
    ParameterShard.open(folder).close()


@pytest.mark.parametrize("method", ["peek", "append"])
def test_a_request_without_memory_is_refused_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Before anything of it is in the log or in the table."""
    with served(make_shards(tmp_path, PLAIN, 1)) as services, StepClient(addresses_of(services)) as client:
        shard = services[0]._shard
        client.send(KEYS, 0 * ONES)
        owner = {"peek": shard.parameters, "append": shard._log}[method]

        def refuse(*_: object) -> None:
            raise MemoryError("Unable to allocate 1.00 GiB\nfor an array")

        call = {"peek": lambda: client.weights(KEYS), "append": lambda: client.send(KEYS, ONES)}[method]
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, refuse)
            with pytest.raises(BitlaneError) as error:
                call()
        assert f": no memory is left (Unable to allocate 1.00 GiB for an array){ADVICE}" in one_line(error)
        assert not shard.parameters.pull(KEYS).any() and len(shard.parameters.table) == 4
        client.flush()
        client.send(KEYS, ONES)
        assert (client.weights(KEYS) == -1 - (method == "append")).all()
        assert client.status()[0]["rows"] == 4


def test_a_checkpoint_without_memory_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    with remote(make_shards(tmp_path, PLAIN, 1)) as client:
        client.send(KEYS, ONES)
        with monkeypatch.context() as patch:
            patch.setattr(storage, "write_dense", refuse)
            with pytest.raises(BitlaneError) as error:
                client.checkpoint()
        assert one_line(error).endswith(
            f"checkpoint-0000002 cannot be written: no memory is left (MemoryError){ADVICE}; the log remains"
        )
        client.send(KEYS, ONES)
        status = client.status()[0]
        assert status["log_segments"] == 2 and status["checkpoint"] == 1
