"""A shard's server on a disk that is full, really or by a limit on the size of files.

As a program: `python -m tests.helpers.full_disk DISK FOLDER SEED`. DISK is ``real``: FOLDER lies on a small file system
of its own; or ``limit``: the server's files may not grow beyond a size. It prints what the client raised.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.helpers.sparse_servers import ServerProcess, StepClient, make_shards, server_processes

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.epochs import current_folder
from bitlane.sparse.servers.spec import ShardSpec

BLOCKS = (ParameterBlock(3, AdaGrad(), 0.05), ParameterBlock(1, SGD(0.1)))
KEYS = np.arange(5000, dtype=np.uint64)
CHECKPOINT = 36 * len(KEYS)  # bytes, at least
FREE = 1 << 20  # of the log, before the disk is full
SMALL = CHECKPOINT // 2  # what is left when a checkpoint does not fit, and some updates do


class RealDisk:
    """A file system that a ballast file fills."""

    def __init__(self, folder: Path):
        self._folder, self._ballast = folder, folder / "ballast"

    def leave(self, process: ServerProcess, room: int) -> None:
        """Leave so many bytes free."""
        self.make_room(process)
        free = os.statvfs(self._folder)
        self._ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - room))

    def make_room(self, process: ServerProcess) -> None:
        self._ballast.unlink(missing_ok=True)


class FileLimit:
    """The substitute: RLIMIT_FSIZE of the server, with the error EFBIG instead of ENOSPC."""

    def __init__(self, folder: Path):
        pass

    def leave(self, process: ServerProcess, room: int) -> None:
        """Let files grow to so many bytes."""
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (room, hard))

    def make_room(self, process: ServerProcess) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


class Updating:
    """Random updates of servers and of local parameters."""

    def __init__(self, seed: int, client: StepClient):
        self._draw, self.client, self.local = np.random.default_rng(seed), client, SparseParameters(BLOCKS, 7)

    def step(self) -> None:
        """Send a step; if that fails, `late` is what the local parameters lack."""
        keys = self._draw.permutation(KEYS)[: self._draw.integers(1, 400)]
        gradients = self._draw.normal(size=(len(keys), 4)).astype(np.float32)
        self.late = lambda: self.local.push(keys, gradients, create=True)
        self.client.send(keys, gradients)
        self.late()

    def check(self) -> None:
        """The servers have the weights and the number of rows of the local parameters."""
        assert np.array_equal(self.client.weights(KEYS), self.local.weights_of(self.local.peek(KEYS)))
        assert self.client.status()[0]["rows"] == len(self.local.table)


def message_of(call: Callable[[], object]) -> str:
    try:
        call()
    except BitlaneError as error:
        return str(error)
    raise AssertionError("the disk is not full")


def step_until_full(work: Updating) -> None:
    for _ in range(10_000):
        work.step()


def main(kind: str, folder: Path, seed: int) -> None:
    disk = {"real": RealDisk, "limit": FileLimit}[kind](folder)
    shard = make_shards(folder, ShardSpec(BLOCKS, 7), 1)[0]
    with server_processes([shard]) as (process,), StepClient([process.address]) as client:
        work = Updating(seed, client)
        disk.leave(process, FREE)
        print(message_of(lambda: step_until_full(work)))
        work.check()  # nothing of the last update is there
        print(message_of(client.flush))
        work.check()
        disk.make_room(process)
        client.flush()
        work.late()
        work.check()
        for _ in range(20):
            work.step()

        disk.leave(process, SMALL)
        print(message_of(client.checkpoint))
        assert sorted(path.name for path in current_folder(shard).glob("*checkpoint*")) == ["checkpoint-0000001"]
        for _ in range(3):
            work.step()
        work.check()
        process.kill()
        process.start()
        work.check()  # by the log
        disk.make_room(process)
        client.checkpoint()
        work.step()
        process.kill()
        process.start()
        work.check()  # by the checkpoint and the log
        assert sorted(path.name for path in current_folder(shard).glob("*checkpoint*")) == ["checkpoint-0000002"]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
