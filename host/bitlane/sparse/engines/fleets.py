"""The servers and the workers of a training, as its driver sees them: started, polled, recreated, stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitlane import __version__
from bitlane.errors import BitlaneError
from bitlane.sparse.engines.access import Access
from bitlane.sparse.engines.actors import DEADLINE, Record, ShardActor, WorkerActor, WorkerTask
from bitlane.sparse.engines.addresses import error_of
from bitlane.sparse.engines.cluster import Cluster
from bitlane.sparse.engines.merging import ScoreMerger
from bitlane.sparse.workers.worker import WorkerCounts

_MOST_DEATHS = 3  # of one process in a row, without a row that was learned meanwhile


class Deaths:
    """WorkerCounts how often a process has died without progress.

    Parameters
    ----------
    who : str
        Its name in the error.
    """

    def __init__(self, who: str):
        self._who, self._count, self._rows = who, 0, -1

    def add(self, rows: int) -> None:
        """Note a death, with the rows that were learned by then.

        Raises
        ------
        BitlaneError
            The process dies again and again.
        """
        self._count = self._count + 1 if rows == self._rows else 1
        self._rows = rows
        if self._count > _MOST_DEATHS:
            raise BitlaneError(f"{self._who} has died {self._count} times without progress; it may lack memory")


class Servers:
    """The servers of a training.

    Parameters
    ----------
    cluster : Cluster
    folders : sequence of Path
        Of the shards.
    access : Access
    share : float
        Of a processor, for each.

    Attributes
    ----------
    actors : list
        A `ShardActor` for each.
    reports : list of dict
        The last `ShardActor.report` of each.
    """

    def __init__(self, cluster: Cluster, folders: Sequence[Path], access: Access, share: float):
        self._ray = cluster.ray
        self.actors = [
            cluster.actor(ShardActor, share, str(folder.resolve()), access, __version__, restarts=-1)
            for folder in folders
        ]
        self.reports: list[Record] = [{} for _ in folders]
        self._asked = [self._ask(server) for server in range(len(folders))]
        self._deaths = [Deaths(f"server {server}") for server in range(len(folders))]

    def wait(self) -> None:
        """Wait until all servers serve; errors as of `poll`."""
        while not all(self.reports):
            self._ray.wait([reference for reference, _ in self._asked], timeout=1.0)
            self.poll(0)

    def poll(self, rows: int) -> None:
        """Take the reports that have come, without waiting.

        Parameters
        ----------
        rows : int
            That all workers have learned.

        Raises
        ------
        BitlaneError
            A server cannot serve its shard, dies again and again, or does not answer for long.
        """
        for server, (reference, since) in enumerate(self._asked):
            ready, _ = self._ray.wait([reference], timeout=0)
            if not ready:
                if time.monotonic() - since > DEADLINE:
                    raise BitlaneError(
                        f"server {server} has not answered for {DEADLINE:g} s: its process does not start, or crashes "
                        "repeatedly; check its memory and the resources of the cluster"
                    )
                continue
            report = self._get(server, reference)
            if self.reports[server] and self.reports[server]["pid"] != report["pid"]:
                self._deaths[server].add(rows)
            self.reports[server] = report
            self._asked[server] = self._ask(server)

    def table(self) -> tuple[int, int, int]:
        """Return keys, bytes of memory and bytes of data of all tables, as last reported."""
        keys, memory, data = (sum(each[name] for each in self.reports) for name in ("rows", "bytes", "data_bytes"))
        return keys, memory, data

    def checkpoint(self) -> None:
        """Let each server write a checkpoint; do not wait."""
        for actor in self.actors:
            actor.checkpoint.remote()

    def stop(self) -> None:
        """Let each server write a checkpoint and release its folder; errors as of `poll`."""
        for server, reference in enumerate([actor.stop.remote() for actor in self.actors]):
            self._get(server, reference)

    def _ask(self, server: int) -> tuple[Any, float]:
        return self.actors[server].report.remote(), time.monotonic()

    def _get(self, server: int, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise error_of(error, f"server {server}") from error


class Workers:
    """The workers of a training.

    Parameters
    ----------
    cluster : Cluster
    task : WorkerTask
    servers : Servers
    share : float
        Of a processor, for each.

    Attributes
    ----------
    processes : list of int or None
        The process of each worker, once it is known.
    stopping : bool
        Whether `stop` was called.
    """

    def __init__(self, cluster: Cluster, task: WorkerTask, servers: Servers, share: float):
        self._cluster, self._task, self._servers, self._share = cluster, task, servers, share
        self._ray, self.stopping = cluster.ray, False
        count = task.options.workers
        self.processes: list[int | None] = [None] * count
        self._counts: list[list[Record]] = [[{}] for _ in range(count)]  # of each process that a worker had
        self._deaths = [Deaths(f"worker {index}") for index in range(count)]
        self._actors = [self._actor(index) for index in range(count)]
        self._merger: ScoreMerger | None = None
        self._received = [0] * count  # of what the actor has learned
        self._takes: dict[int, Any] = {}  # of the workers that have not ended

    def begin(self, merger: ScoreMerger) -> None:
        """Let the workers learn, once the training has begun on the servers; `merger` gets their scores."""
        self._merger = merger
        for index in range(len(self._actors)):
            self._ask(index)

    @property
    def running(self) -> bool:
        """Whether some worker has not ended."""
        return bool(self._takes)

    @property
    def counts(self) -> WorkerCounts:
        """The sums over all workers, as far as they were reported."""
        total = WorkerCounts()
        for record in (record for records in self._counts for record in records):
            for name, value in record.items():
                setattr(total, name, getattr(total, name) + value)
        return total

    def stop(self) -> None:
        """Let all workers end behind their minibatch."""
        self.stopping = True

    def poll(self, seconds: float) -> None:
        """Wait so many seconds, and take what the workers have learned.

        Raises
        ------
        BitlaneError
            A worker has failed, or dies again and again.
        """
        time.sleep(seconds)
        for index, question in list(self._takes.items()):
            if self._ray.wait([question], timeout=0)[0]:
                self._take(index)

    def _actor(self, index: int) -> Any:
        generation = len(self._counts[index]) - 1
        return self._cluster.actor(WorkerActor, self._share, index, generation, self._task, self._servers.actors)

    def _ask(self, index: int) -> None:
        self._takes[index] = self._actors[index].take.remote(self._received[index], self.stopping)

    def _take(self, index: int) -> None:
        """Take the scores and the counts of a worker; recreate a dead one."""
        assert self._merger is not None
        try:
            learned, report = self._ray.get(self._takes[index])
        except self._ray.exceptions.RayTaskError as error:
            raise error_of(error, f"worker {index}") from error
        except self._ray.exceptions.ActorUnavailableError:  # the connection is lost; the worker may live
            self._ask(index)
            return
        except self._ray.exceptions.RayError:
            self._deaths[index].add(self._merger.rows_of(index))
            self._counts[index].append({})
            self._actors[index], self._received[index] = self._actor(index), 0
            self._ask(index)
            return
        self._merger.add(index, learned)
        self._received[index] += len(learned)
        self.processes[index], self._counts[index][-1] = report["pid"], report["counts"]
        if report["ended"]:
            del self._takes[index]
            self._merger.end(index)
        else:
            self._ask(index)
