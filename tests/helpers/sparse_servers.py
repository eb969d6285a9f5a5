"""Servers of sparse parameters in processes of their own, and faults for them.

As a program, it serves a shard with a fault: `python -m tests.helpers.sparse_servers FAULT --folder ...`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.helpers.places import ROOT

from bitlane.sparse.servers import wire
from bitlane.sparse.servers.client import RemoteParameters
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.updates import PUSH

READY_SECONDS = 60
OPTIONS = ("--with-parent",)


class ServerProcess:
    """A server of a shard in a process, which can be killed and started again at the same port."""

    def __init__(self, folder: Path, *options: str, fault: str = ""):
        self.folder, self._options, self._fault = folder, options, fault
        self.port = 0
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        program = ["tests.helpers.sparse_servers", self._fault] if self._fault else ["bitlane.sparse.servers.process"]
        place = ["--folder", str(self.folder), "--port", str(self.port), *OPTIONS, *self._options]
        command = [sys.executable, "-m", *program, *place]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError("the server did not start")
        self.port = json.loads(line)["port"]

    def kill(self) -> None:
        self.process.kill()
        self._reap()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        self.process.stdout.close()
        return self.process.wait(READY_SECONDS)


@contextlib.contextmanager
def server_processes(folders: Sequence[Path], *options: str, fault: str = "") -> Iterator[list[ServerProcess]]:
    """Serve the shards of `folders`; kill what is left at the end."""
    found: list[ServerProcess] = []
    try:
        for folder in folders:
            found.append(ServerProcess(folder, *options, fault=fault))
        yield found
    finally:
        for each in found:
            if each.process.poll() is None:
                each.kill()


@contextlib.contextmanager
def served(folders: Sequence[Path], **options) -> Iterator[list[ShardService]]:
    """Serve the shards of `folders` by threads of this process. Clients must be closed before the end."""
    shards = [Shard.open(folder) for folder in folders]
    services = [ShardService(shard, **options) for shard in shards]
    try:
        yield services
    finally:
        for service, shard in zip(services, shards, strict=True):
            service.refuse()
            service.shutdown()
            shard.close()


def addresses_of(services: Sequence[ShardService]) -> list[str]:
    return [f"127.0.0.1:{service.port}" for service in services]


def make_shards(folder: Path, spec: ShardSpec, servers: int, initial=None) -> list[Path]:
    """Make the folders of all shards of a model."""
    folders = [folder / f"shard-{server}-of-{servers}" for server in range(servers)]
    for server, each in enumerate(folders):
        Shard.create(each, spec.placed(server, servers), initial)
    return folders


@contextlib.contextmanager
def remote(folders: Sequence[Path], **options) -> Iterator[RemoteParameters]:
    """Serve shards by threads, and connect to them."""
    with served(folders) as services, RemoteParameters(addresses_of(services), **options) as parameters:
        yield parameters


def work_on_both(draw, universe, parameters, local, matrices, seen: int) -> None:
    """Pull, push and now and then push matrices, at random, on servers and on local parameters, which must agree."""
    keys = draw.permutation(universe)[: draw.integers(0, 120)]
    create = bool(draw.integers(0, 2))
    assert np.array_equal(parameters.pull(keys, create=create), local.pull(keys, create=create))
    gradients = draw.normal(size=(len(keys), local.layout.values)).astype(np.float32)
    parameters.push(keys, gradients, seen)
    local.push(keys, gradients, seen)
    if seen % 5 == 0:
        dense = {name: draw.normal(size=each.shape).astype(np.float32) for name, each in matrices.items()}
        parameters.push_dense(dense, seen)
        for name, gradient in dense.items():
            matrices[name].push(gradient, seen)
        found = parameters.pull_dense()
        assert all(np.array_equal(found[name], each.pull()) for name, each in matrices.items())


# --- faults
def without_log() -> None:
    """Acknowledge without writing."""
    from bitlane.sparse.servers.log import Log

    Log.append = lambda self, payloads: None


def without_sequences() -> None:
    """Apply whatever comes, however often it comes."""
    shard_due = Shard._due

    def due(self, update, sequences):
        last = sequences.get(update.worker, self._sequences.get(update.worker, 0))
        return shard_due(self, replace(update, sequence=last + 1), sequences)

    Shard._due = due


def without_memory() -> None:
    """No memory for an array of 256 KiB or more."""
    from bitlane.sparse.tables import memory

    def refuse(size):
        raise MemoryError(f"Unable to map {size:,} bytes")

    memory._new_mapping = refuse


def of_another_version() -> None:
    """Speak another protocol."""
    wire.PROTOCOL = 9


def dying_before_answer() -> None:
    """Die at the first push from the 20th commit on, before the client hears of it."""
    commit = Shard._commit
    count = [0]

    def dying(self, update):
        last = commit(self, update)
        count[0] += 1
        if count[0] >= 20 and update.kind == PUSH:
            os.kill(os.getpid(), signal.SIGKILL)
        return last

    Shard._commit = dying


def dying_in_checkpoint() -> None:
    """Die when a checkpoint has its rows, and not yet its matrices."""
    from bitlane.sparse.parameters import storage

    storage.write_dense = lambda folder, arrays: os.kill(os.getpid(), signal.SIGKILL)


def dying_after_checkpoint() -> None:
    """Die when a checkpoint has its name, and before the log that it covers is deleted."""
    from bitlane.sparse.servers.log import Log

    Log.delete_before = lambda self, segment: os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        globals()[name]()
    from bitlane.sparse.servers import process

    process.main(sys.argv[2:])
