"""Servers without memory: one line, the acknowledged updates stay, and no client waits for ever."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_servers import ServerProcess, addresses_of, make_shards, remote, served, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters import storage
from bitlane.sparse.parameters.layout import Block
from bitlane.sparse.parameters.optimizers import SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.client import RemoteParameters
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.spec import ShardSpec

BLOCKS = (Block(16, AdaGrad(), 0.05),)
PLAIN = ShardSpec((Block(1, SGD(1.0)),))
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
        RemoteParameters([process.address], deadline=60) as parameters,
    ):

        def update(batch: int) -> None:
            nonlocal late
            keys = np.arange(batch * BATCH, (batch + 1) * BATCH, dtype=np.uint64)
            gradients = draw.normal(size=(BATCH, 16)).astype(np.float32)
            for call in (lambda each: each.pull(keys, create=True), lambda each: each.push(keys, gradients)):
                late = call
                call(parameters)
                call(local)

        late, batch = None, 0
        update(0)
        limit_memory(process)
        parameters.deadline = 30  # a library that ends the process leaves nobody to answer
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
        parameters.deadline = 60
        parameters.flush()
        late(local)
        update(batch + 1)
        keys = np.arange((batch + 2) * BATCH, dtype=np.uint64)
        assert np.array_equal(parameters.pull(keys), local.pull(keys))
        assert parameters.status()[0]["rows"] == len(local.table)


def test_a_recovery_without_memory_is_one_line(tmp_path: Path) -> None:
    folder = make_shards(tmp_path, ShardSpec(BLOCKS), 1)[0]
    shard = Shard.open(folder)
    shard.create_rows("w", 1, np.arange(BATCH, dtype=np.uint64))
    shard.close()
    command = [sys.executable, "-m", "tests.helpers.sparse_servers", "without_memory", "--folder", str(folder)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (found.returncode, found.stdout) == (1, "")
    line = rf"error: {re.escape(str(folder))}: no memory is left \(Unable to map [\d,]+ bytes\){ADVICE}\n"
    assert re.fullmatch(line, found.stderr)
    shard = Shard.open(folder)  # nothing has changed, and nobody holds it
    assert len(shard.parameters.table) == BATCH
    shard.close()


def test_a_checkpoint_that_memory_cannot_hold_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_shards(tmp_path, PLAIN, 1)[0]
    shard = Shard.open(folder)
    shard.create_rows("w", 1, KEYS)
    shard.checkpoint()
    shard.close()

    def refuse(*_: object) -> None:
        raise wire.pyarrow.ArrowMemoryError("malloc of size 64 failed")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_arrays", refuse)
        with pytest.raises(MemoryError, match="malloc of size 64 failed"):
            Shard.open(folder)
    Shard.open(folder).close()


@pytest.mark.parametrize("place", ["pull", "unmet", "append"])
def test_a_request_without_memory_is_refused_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Before anything of it is in the log or in the table."""
    with served(make_shards(tmp_path, PLAIN, 1)) as services, RemoteParameters(addresses_of(services)) as parameters:
        shard = services[0]._shard
        parameters.pull(KEYS, create=True)
        owner = {"pull": shard.parameters, "unmet": shard.parameters.table, "append": shard._log}[place]

        def refuse(*_: object) -> None:
            raise MemoryError("Unable to allocate 1.00 GiB\nfor an array")

        call = {
            "pull": lambda: parameters.pull(KEYS),
            "unmet": lambda: parameters.pull(KEYS + KEYS[1], create=True),
            "append": lambda: parameters.push(KEYS, ONES),
        }[place]
        with monkeypatch.context() as patch:
            patch.setattr(owner, place, refuse)
            with pytest.raises(BitlaneError) as error:
                call()
        assert f": no memory is left (Unable to allocate 1.00 GiB for an array){ADVICE}" in one_line(error)
        assert not shard.pull(KEYS).any() and len(shard.parameters.table) == 4
        parameters.flush()
        parameters.push(KEYS, ONES)
        assert (parameters.pull(KEYS) == -1 - (place == "append")).all()
        assert parameters.status()[0]["rows"] == 4 + (place == "unmet")


def test_a_checkpoint_without_memory_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    with remote(make_shards(tmp_path, PLAIN, 1)) as parameters:
        parameters.pull(KEYS, create=True)
        with monkeypatch.context() as patch:
            patch.setattr(storage, "write_dense", refuse)
            with pytest.raises(BitlaneError) as error:
                parameters.checkpoint()
        assert one_line(error).endswith(
            f"checkpoint-0000002 cannot be written: no memory is left (MemoryError){ADVICE}; the log is kept"
        )
        parameters.push(KEYS, ONES)
        status = parameters.status()[0]
        assert status["log_segments"] == 2 and status["checkpoint"] == 1
