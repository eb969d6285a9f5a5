"""Worker processes that exchange dense gradients at each clock, and die on request."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from bitlane.compress.collectives.sockets import acknowledged_bytes, bytes_at_rest, received_bytes
from bitlane.errors import BitlaneError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.training import TrainingServers
from bitlane.sparse.servers.updates import join_dense
from bitlane_studies.sparse.dense_exchange import SERVERS, AllReduceExchange, Arrays, Exchange, ServerExchange

BATCHES = 16  # different gradients of a worker, which take turns
START_SECONDS = 120  # for the start of a process


@dataclass(frozen=True)
class WorkerPlan:
    """What all workers know.

    Attributes
    ----------
    spec : ModelSpec
    workers : int
    ways : tuple of str
        See `dense_exchange`.
    addresses : tuple of str
        Of the servers, for the way `SERVERS`.
    store : Path
        A file that does not exist, by which the workers of an all-reduce meet.
    timeout : float
        Seconds that a worker waits for another, or for a server.
    seed : int
        Of the gradients.
    """

    spec: ModelSpec
    workers: int
    ways: tuple[str, ...]
    addresses: tuple[str, ...]
    store: Path
    timeout: float
    seed: int


@dataclass(frozen=True)
class Run:
    """Ask a worker for the clocks of a way up to `until`; with `dies`, it sends itself this signal at clock `at`."""

    way: str
    until: int
    dies: int | None = None
    at: int = 0


@dataclass(frozen=True)
class Ran:
    """What a worker did.

    Attributes
    ----------
    milliseconds : tuple of float
        Of each clock, from its gradients to new weights.
    clock : int
        Where it is now.
    weights : float32 [n]
        The last ones, by `join_dense`.
    error : str
        Why it stopped before the end; empty if it did not.
    error_milliseconds : float
        From the gradients to the error.
    """

    milliseconds: tuple[float, ...]
    clock: int
    weights: Any
    error: str = ""
    error_milliseconds: float = 0.0


def gradients_of(plan: WorkerPlan, worker: int) -> list[Arrays]:
    """Return the gradients that a worker has in turn, one set of matrices for each of `BATCHES` clocks."""
    draw = np.random.default_rng([plan.seed, worker])
    shapes = {name: each.shape for name, each in SparseModel(plan.spec).matrices.items()}
    return [
        {name: draw.standard_normal(shape, np.float32) * np.float32(0.01) for name, shape in shapes.items()}
        for _ in range(BATCHES)
    ]


class Workers:
    """The processes of all workers, which end with the context.

    Attributes
    ----------
    processes : list
        By worker, then those that were replaced.
    """

    def __init__(self, plan: WorkerPlan):
        self.plan = plan
        self.processes: list[Any] = []
        self._connections: list[Connection] = []
        try:
            for worker in range(plan.workers):
                self._append(worker)
            for worker in range(plan.workers):
                self.answer(worker, START_SECONDS)
        except BaseException:
            self.close()
            raise

    def replace(self, worker: int) -> None:
        """Start a worker again in another process; the old one stays as it is, behind the others in the list."""
        self._append(worker)
        for each in (self.processes, self._connections):
            each[worker], each[-1] = each[-1], each[worker]
        self.answer(worker, START_SECONDS)

    def ask(self, worker: int, request: Any) -> None:
        """Send a request: a `Run`, or None for the bytes that were sent and received so far."""
        self._connections[worker].send(request)

    def answered(self, worker: int, seconds: float = 0.0) -> bool:
        """Return whether a worker has answered, or is dead, within so many seconds."""
        return self._connections[worker].poll(seconds)

    def answer(self, worker: int, seconds: float) -> Any:
        """Return a worker's answer: a `Ran`, or the bytes sent and received, int64 [2].

        Raises
        ------
        BitlaneError
            It did not answer in time, or is dead.
        """
        if not self.answered(worker, seconds):
            raise BitlaneError(f"worker {worker} did not answer within {seconds:g} s")
        try:
            return self._connections[worker].recv()
        except EOFError:
            raise BitlaneError(f"worker {worker} has ended") from None

    def run(self, run: Run, seconds: float) -> list[Ran]:
        """Let all workers run; return their answers.

        Raises
        ------
        BitlaneError
            A worker stopped before the end.
        """
        found: list[Ran] = self._all(run, seconds)
        for worker, each in enumerate(found):
            if each.error:
                raise BitlaneError(f"worker {worker}, {run.way}: {each.error}")
        return found

    def transferred(self) -> Any:
        """Return the bytes that all workers together have sent and received so far, int64 [2]."""
        return np.sum(self._all(None, START_SECONDS), axis=0)

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
            process.join()
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, worker: int) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, worker, self.plan), daemon=True)
        process.start()
        there.close()
        self.processes.append(process)
        self._connections.append(here)

    def _all(self, request: Any, seconds: float) -> list[Any]:
        for worker in range(self.plan.workers):
            self.ask(worker, request)
        return [self.answer(worker, seconds) for worker in range(self.plan.workers)]


# --- inside a worker's process
def _work(connection: Connection, worker: int, plan: WorkerPlan) -> None:
    torch.set_num_threads(1)
    gradients = gradients_of(plan, worker)
    exchanges = _exchanges(plan, worker)
    connection.send("ready")
    try:
        while True:
            request = connection.recv()
            if request is None:
                connection.send(_bytes_at_rest())
            else:
                connection.send(_run(exchanges[request.way], request, gradients))
    except EOFError:  # the parent has ended
        os._exit(0)


def _exchanges(plan: WorkerPlan, worker: int) -> dict[str, Exchange]:
    found: dict[str, Exchange] = {}
    if any(way != SERVERS for way in plan.ways):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        limit = timedelta(seconds=plan.timeout)
        dist.init_process_group("gloo", f"file://{plan.store}", limit, world_size=plan.workers, rank=worker)
    for way in plan.ways:  # all workers in the same order: each compressor makes a group
        if way == SERVERS:
            servers = TrainingServers(plan.addresses, worker=worker_name(worker), deadline=plan.timeout)
            found[way] = ServerExchange(servers, worker)
        else:
            found[way] = AllReduceExchange(plan.spec, way, plan.timeout)
    return found


def _run(exchange: Exchange, run: Run, gradients: Sequence[Arrays]) -> Ran:
    times: list[float] = []
    weights: Arrays = {}
    while exchange.clock < run.until:
        if run.dies is not None and exchange.clock == run.at:
            os.kill(os.getpid(), signal.Signals(run.dies))
        begin = time.perf_counter()
        try:
            weights = exchange.exchange(gradients[exchange.clock % BATCHES])
        except (BitlaneError, RuntimeError) as error:
            waited = 1e3 * (time.perf_counter() - begin)
            return Ran(tuple(times), exchange.clock, join_dense(weights), str(error).splitlines()[0], waited)
        times.append(1e3 * (time.perf_counter() - begin))
    return Ran(tuple(times), exchange.clock, join_dense(weights))


def _bytes_at_rest() -> Any:
    """Return the bytes sent and received when they no longer change, int64 [2]."""
    return np.array([bytes_at_rest(count) for count in (acknowledged_bytes, received_bytes)], np.int64)
