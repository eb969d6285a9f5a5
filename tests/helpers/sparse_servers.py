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

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.row_codecs import GradientChunk, encode_chunks
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.steps import WorkerStep
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.servers.updates import STEP

READY_SECONDS = 60
OPTIONS = ("--with-parent",)
TRAINING = (4, 1)  # workers and staleness: a step is applied at once
DRIVER = "driver"


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

    def halt(self) -> None:
        """Stop the process until SIGCONT; on return none of its threads runs any more."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

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
    shards = [ParameterShard.open(folder) for folder in folders]
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


def make_shards(folder: Path, spec: ShardSpec, servers: int, initial=None, *, begun: bool = True) -> list[Path]:
    """Make the folders of all shards of a model, and begin a training in each, or leave that to a driver."""
    folders = [folder / f"shard-{server}-of-{servers}" for server in range(servers)]
    for server, each in enumerate(folders):
        ParameterShard.create(each, spec.placed(server, servers), initial)
        if begun:
            begin(each)
    return folders


def begin(folder: Path) -> None:
    """Begin a training in a shard."""
    shard = ParameterShard.open(folder)
    shard.begin(DRIVER, 1, *TRAINING, clock=0)
    shard.close()


def payload(keys, gradients, **settings) -> np.ndarray:
    """The step of worker 0 at clock 0, in bytes."""
    chunk = GradientChunk("float32", keys, np.asarray(gradients, np.float32))
    return WorkerStep(0, 0, encode_chunks([chunk], pack_keys=False), **settings).to_bytes()


class StepClient(TrainingServers):
    """All rows by one call, and steps of worker 0 at clock 0, one after the other."""

    def __init__(self, addresses: Sequence[str], **options):
        super().__init__(addresses, **options)
        self._number = self.resumption().number

    def weights(self, keys) -> np.ndarray:
        return self.read(keys, 0, with_state=False).rows

    def dense(self) -> dict[str, np.ndarray]:
        matrices = self.read(np.zeros(0, np.uint64), 0, with_state=False).dense
        return {name: values.reshape(self.spec.matrices[name].shape) for name, values in matrices.items()}

    def send(self, keys, gradients, rows_seen: int = 0, dense=None, **settings) -> None:
        """Send a step with gradients of rows and, if given, of all matrices."""
        chunks = [GradientChunk("float32", keys, np.asarray(gradients, np.float32))]
        try:
            self.step(self._number, WorkerStep(0, 0, rows_seen=rows_seen, **settings), chunks, dense or {}, pack=False)
        except DataError:
            raise
        except BitlaneError:
            self._number += 1  # it is retained, and sent before the next one
            raise
        self._number += 1


@contextlib.contextmanager
def remote(folders: Sequence[Path], **options) -> Iterator[StepClient]:
    """Serve shards by threads, and connect to them."""
    with served(folders) as services, StepClient(addresses_of(services), **options) as client:
        yield client


def work_on_both(draw, universe, client: StepClient, local, matrices, seen: int) -> None:
    """Read and send steps at random, now and then with matrices: servers and local parameters must agree."""
    keys = draw.permutation(universe)[: draw.integers(0, 120)]
    assert np.array_equal(client.weights(keys), local.weights_of(local.peek(keys)))
    gradients = draw.normal(size=(len(keys), local.layout.values)).astype(np.float32)
    dense = {}
    if seen % 5 == 0:
        dense = {name: draw.normal(size=each.shape).astype(np.float32) for name, each in matrices.items()}
    client.send(keys, gradients, seen, dense)
    local.push(keys, gradients, seen, create=True)
    for name, gradient in dense.items():
        matrices[name].push(gradient, seen)
    weights = client.dense()
    assert all(np.array_equal(weights[name], each.pull()) for name, each in matrices.items())


# --- faults
def without_log() -> None:
    """Acknowledge without writing."""
    from bitlane.sparse.servers.log import WriteAheadLog

    WriteAheadLog.append = lambda self, payloads: None


def without_sequences() -> None:
    """Apply whatever comes, however often it comes."""
    shard_due = ParameterShard._due

    def due(self, update, sequences):
        last = sequences.get(update.worker, self._sequences.get(update.worker, 0))
        return shard_due(self, replace(update, sequence=last + 1), sequences)

    ParameterShard._due = due


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
    """Die at the first step from the 20th commit on, before the client hears of it."""
    commit = ParameterShard._commit
    count = [0]

    def dying(self, update):
        last = commit(self, update)
        count[0] += 1
        if count[0] >= 20 and update.kind == STEP:
            os.kill(os.getpid(), signal.SIGKILL)
        return last

    ParameterShard._commit = dying


def dying_in_checkpoint() -> None:
    """Die when a checkpoint has its rows, and not yet its matrices."""
    from bitlane.sparse.parameters import storage

    storage.write_dense = lambda folder, arrays: os.kill(os.getpid(), signal.SIGKILL)


def dying_after_checkpoint() -> None:
    """Die when a checkpoint has its name, and before the log that it covers is deleted."""
    from bitlane.sparse.servers.log import WriteAheadLog

    WriteAheadLog.delete_before = lambda self, segment: os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        globals()[name]()
    from bitlane.sparse.servers import process

    process.main(sys.argv[2:])
