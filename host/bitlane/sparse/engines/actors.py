"""The actors of a training: a server for each shard, and workers. Each has a process of its own.

Ray restarts a server when its process dies: it recovers from its checkpoint and its log, at another port, which the
workers ask for. The driver recreates a worker, which resumes after its last step.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import __version__
from bitlane.errors import BitlaneError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.source import Source
from bitlane.sparse.engines.access import Access
from bitlane.sparse.engines.addresses import ServerAddresses
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.row_sample import RowsSeen, seen_rows
from bitlane.sparse.parameters.statistics import StatisticsSettings
from bitlane.sparse.servers.lanes import address_of
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.service import ShardService
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.servers.upkeep import CHECKPOINT_BYTES, keep_log_short, warm_up
from bitlane.sparse.workers.minibatches import learned_before
from bitlane.sparse.workers.worker import Worker, WorkerOptions

DEADLINE = 120.0  # seconds that a request may take: as long as a process needs to restart

Floats = NDArray[np.float32]
OpenSource = Callable[[int, Mapping[str, Any]], Source]
Record = dict[str, Any]


class ShardActor:
    """Serves one shard.

    Parameters
    ----------
    folder : str
        Of the shard.
    access : Access
    version : str
        Of the driver's bitlane.
    """

    def __init__(self, folder: str, access: Access, version: str):
        self._folder, self._access, self._version = folder, access, version
        self._lock, self._ending, self._stop = threading.Lock(), threading.Lock(), threading.Event()
        self._shard: ParameterShard | None = None
        self._service: ShardService | None = None

    def report(self) -> Record:
        """Return address, process, and rows and bytes of the table; the first call opens the shard.

        Raises
        ------
        BitlaneError
            Another version of bitlane, or a damaged folder.
        """
        with self._lock:
            if self._shard is None:
                check_version(self._version)
                self._open()
            assert self._shard is not None and self._service is not None
            table = self._shard.parameters.table
            return {
                "address": address_of(self._access.node, self._service.port),
                "pid": os.getpid(),
                "rows": len(table),
                "bytes": table.nbytes,
                "data_bytes": table.data_nbytes,
            }

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        if self._shard is not None:
            self._shard.checkpoint()

    def stop(self) -> None:
        """Write a checkpoint, take no more requests, and release the folder; a second call does nothing."""
        self.report()  # a server that has just restarted has to read its log first
        assert self._shard is not None and self._service is not None
        with self._ending:  # Ray calls again if the answer is lost
            if self._stop.is_set():
                return
            self._service.refuse()
            self._shard.checkpoint()
            self._stop.set()
            self._shard.close()

    def _open(self) -> None:
        shard = ParameterShard.open(self._folder, take_over=True)  # Ray gives up who served it before
        try:
            warm_up(shard.spec)
            reach = self._access.server
            self._service = self._access.serve(lambda host, port: ShardService(shard, host, port, **reach))
        except BaseException:
            shard.close()
            raise
        self._shard = shard
        atexit.register(self._leave)
        threading.Thread(target=self._keep, args=(shard,), name="bitlane-log", daemon=True).start()

    def _leave(self) -> None:
        """End the process when Python ends, by SIGTERM; lanes that workers keep open would hold up its end."""
        assert self._shard is not None
        self._shard.close()
        os._exit(1)

    def _keep(self, shard: ParameterShard) -> None:
        keep_log_short(shard, self._stop, CHECKPOINT_BYTES)
        if shard.stopped and not self._stop.is_set():  # out of memory, for example: Ray starts another process
            os._exit(1)


@dataclass(frozen=True)
class WorkerTask:
    """What a worker must know.

    Attributes
    ----------
    spec : ModelSpec
    options : WorkerOptions
    open_source : callable
        From the index of a worker and the offset to resume at, to its share of the rows.
    access : Access
    statistics : StatisticsSettings, optional
    version : str
        Of the driver's bitlane.
    """

    spec: ModelSpec
    options: WorkerOptions
    open_source: OpenSource
    access: Access
    statistics: StatisticsSettings | None = None
    version: str = __version__


@dataclass(frozen=True)
class Learned:
    """The scores of a minibatch before it was learned.

    Attributes
    ----------
    epoch : int
    rows_done : int
        Rows that the worker has learned with it, those of earlier epochs and runs included.
    scores, labels : float32 [rows]
    weights : float32 [rows] or None
    seen : RowsSeen, optional
        Of the first epoch.
    """

    epoch: int
    rows_done: int
    scores: Floats
    labels: Floats
    weights: Floats | None = None
    seen: RowsSeen | None = None


class WorkerActor:
    """Learns one share of the rows, in a thread: no call lasts, so none is lost for good with a connection.

    Parameters
    ----------
    index : int
        Of the worker.
    generation : int
        How many actors the worker had before: servers refuse one that is not the last.
    task : WorkerTask
    shards : sequence of actors
        The `ShardActor` of each server, in their order.
    """

    def __init__(self, index: int, generation: int, task: WorkerTask, shards: Sequence[Any]):
        self._index, self._generation, self._task, self._shards = index, generation, task, shards
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._learned: list[Learned] = []
        self._delivered = 0  # of what was learned, dropped
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def take(self, received: int, stop: bool) -> tuple[list[Learned], Record]:
        """Return what was learned, and process, counts (see `WorkerCounts`) and whether it has ended.

        The first call begins to learn.

        Parameters
        ----------
        received : int
            How much of what was learned the driver has; the rest is returned.
        stop : bool
            End behind the current minibatch.

        Raises
        ------
        BitlaneError
            As of `Worker.run`, or another version of bitlane.
        """
        if stop:
            self._stop.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="bitlane-worker", daemon=True)
                self._thread.start()
            ended = not self._thread.is_alive()  # before the rest is taken
            del self._learned[: received - self._delivered]
            self._delivered = received
            learned = list(self._learned)
        if self._error is not None:
            raise self._error
        counts = {} if self._worker is None else asdict(self._worker.counts)
        return learned, {"pid": os.getpid(), "counts": counts, "ended": ended}

    def _run(self) -> None:
        task = self._task
        try:
            check_version(task.version)
            name = worker_name(self._index)
            with connected(self._shards, name, task.access, self._generation) as servers:
                model = SparseModel(task.spec)
                source = task.open_source(self._index, servers.resumption().offset)
                self._worker = Worker(self._index, model, servers, source, task.options, self._add, task.statistics)
                self._worker.run(self._stop)
        except BaseException as error:
            self._error = error

    def _add(self, scores: Floats, batch: Batch, offset: Mapping[str, Any]) -> None:
        epoch, done = int(offset.get("epoch", 0)), learned_before(offset)
        seen = None if epoch else seen_rows(batch, done - batch.rows)
        with self._lock:
            self._learned.append(Learned(epoch, done, scores, batch.labels, batch.weights, seen))


def connected(shards: Sequence[Any], worker: str, access: Access, generation: int = 0) -> TrainingServers:
    """Connect to the servers; wait for one that restarts.

    Parameters
    ----------
    shards : sequence of actors
        `ShardActor`.
    worker : str
        Name of the client.
    access : Access
    generation : int, default=0
        See `ServerGroup`.

    Raises
    ------
    BitlaneError
        As of `TrainingServers`.
    """
    unknown = [f"server {server}" for server in range(len(shards))]
    find = ServerAddresses(shards)
    return TrainingServers(unknown, worker=worker, generation=generation, deadline=DEADLINE, find=find, **access.client)


def check_version(driver: str) -> None:
    """Raise BitlaneError unless the driver has the version of bitlane that this process has."""
    if driver != __version__:
        raise BitlaneError(
            f"a node of the Ray cluster has bitlane {__version__}, the driver {driver}: install the same version"
        )
