"""Random schedules of workers and servers, event by event, without threads: which reads see which steps.

Each worker adds 1 to its own column of the rows that it steps on, so a row that is read tells exactly which steps it
has. Messages to a server arrive at random times, in order for each worker; reads are tried until the server allows
them; steps come twice; servers restart from checkpoint and log.
"""

from __future__ import annotations

import random
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.reads import ReadTooEarly
from bitlane.sparse.servers.rounds import worker_name
from bitlane.sparse.servers.row_codecs import GradientChunk, encode_chunks
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.servers.steps import WorkerStep
from bitlane.sparse.servers.training import RemoteRead
from bitlane.sparse.workers.view import OwnStep, View

WORKERS, SERVERS = 4, 2  # at most
BLOCKS = (ParameterBlock(WORKERS, SGD(1.0)),)
MATRIX = MatrixSpec((WORKERS,), SGD(1.0))


class Servers:
    """Shards that outlive many schedules."""

    def __init__(self, folder: Path):
        spec = ShardSpec(BLOCKS, matrices={"bias": MATRIX}, servers=SERVERS)
        self.folders = [folder / str(server) for server in range(SERVERS)]
        for server, each in enumerate(self.folders):
            ParameterShard.create(each, spec.placed(server, SERVERS))
        self.shards = [ParameterShard.open(each) for each in self.folders]
        self.partition = Partition(SERVERS)
        self.numbers = [0] * WORKERS  # steps that each worker has sent in all schedules
        self.begun = 0
        self.restarts = 0
        self.bias = np.zeros(WORKERS)  # that column of the matrix, from earlier schedules

    def begin(self, workers: int, staleness: int) -> int:
        """Begin a training; return its first clock."""
        clock = max(shard.standing("driver")[1] for shard in self.shards)
        self.begun += 1
        for shard in self.shards:
            shard.begin("driver", self.begun, workers, staleness, clock)
        return clock

    def restart(self, server: int, checkpoint: bool) -> None:
        if checkpoint:
            self.shards[server].checkpoint()
        self.shards[server].close()
        self.shards[server] = ParameterShard.open(self.folders[server])
        self.restarts += 1

    def close(self) -> None:
        for shard in self.shards:
            shard.close()


@dataclass
class Reading:
    """A read under way: what each server has answered."""

    keys: Any
    clock: int
    answer: Any = field(default_factory=Future)
    found: dict[int, Any] = field(default_factory=dict)


@dataclass
class Scheduled:
    """A worker of a schedule."""

    index: int
    view: Any
    keys: list[Any]  # of each clock's minibatch
    pushed: list[Any]  # which of them get a step: as with compressed pushes, not all
    clock: int = 0
    taken: bool = False  # whether the minibatch of the clock has its rows
    reads: deque = field(default_factory=deque)
    requests: deque = field(default_factory=deque)
    mail: dict[int, deque] = field(default_factory=lambda: {server: deque() for server in range(SERVERS)})


class Schedule:
    """One training of random size, run to its end. `run` raises AssertionError if a read breaks the rule."""

    def __init__(self, servers: Servers, seed: int):
        self.random, self.servers = random.Random(seed), servers
        draw = self.random
        self.workers, self.staleness, self.clocks = draw.randint(1, WORKERS), draw.randint(0, 3), draw.randint(2, 7)
        self.first = servers.begin(self.workers, self.staleness)
        names = np.sort(np.array([draw.getrandbits(64) for _ in range(12)], np.uint64))
        cache = draw.choice((0, 8, 1 << 10))
        self.team = [self._worker(index, names, cache) for index in range(self.workers)]
        self.reads = 0

    def _worker(self, index: int, names: Any, cache: int) -> Scheduled:
        draw = self.random
        keys = [names[sorted(draw.sample(range(12), draw.randint(1, 12)))] for _ in range(self.clocks)]
        pushed = [each[[draw.random() < 0.7 for _ in each]] for each in keys]
        model: Any = SimpleNamespace(
            parameters=SparseParameters(BLOCKS), matrices={"bias": Matrix((WORKERS,), SGD(1.0))}
        )
        worker = Scheduled(index, None, keys, pushed)

        def read(keys: Any, clock: int, wanted: Any) -> Any:
            worker.reads.append(Reading(keys, clock))
            return worker.reads[-1].answer

        worker.view = View(model, self.staleness, cache, read)
        return worker

    def run(self) -> None:
        """Take random events until every worker has learned its last minibatch and all messages have arrived."""
        while events := [event for worker in self.team for event in self._events(worker)]:
            if self.random.random() < 0.002:
                self.servers.restart(self.random.randrange(SERVERS), self.random.random() < 0.5)
            self.random.choice(events)()
        for worker in self.team:
            self.servers.bias[worker.index] -= self.clocks

    def _events(self, worker: Scheduled) -> list[Any]:
        found: list[Any] = [lambda at=at: self._deliver(worker, at) for at in worker.mail if worker.mail[at]]
        if worker.taken and not any(worker.mail.values()):  # the step before has arrived
            found.append(lambda: self._send(worker))
        if worker.reads:
            found += [
                lambda at=at: self._answer(worker, at) for at in range(SERVERS) if at not in worker.reads[0].found
            ]
        elif worker.clock < self.clocks and not worker.taken:
            has_begun = bool(worker.requests)
            found.append(lambda: self._take(worker) if has_begun else self._request(worker, worker.clock))
        return found

    def _request(self, worker: Scheduled, clock: int) -> None:
        worker.requests.append((clock, worker.view.request(worker.keys[clock], self.first + clock)))

    def _answer(self, worker: Scheduled, server: int) -> None:
        """Let a server answer its part of the first read that is under way, if it may."""
        reading, shard = worker.reads[0], self.servers.shards[server]
        indices, bounds = self.servers.partition.split(reading.keys)
        at = indices[bounds[server] : bounds[server + 1]]
        try:
            with_state = self.staleness > 0
            read = shard.read(reading.keys[at], worker_name(worker.index), reading.clock, with_state=with_state)
        except ReadTooEarly:
            return
        reading.found[server] = (at, read)
        if len(reading.found) == SERVERS:
            rows, own = np.zeros((len(reading.keys), WORKERS), np.float32), np.zeros(len(reading.keys), np.int64)
            dense, dense_own = {}, {}
            for indices, read in reading.found.values():
                rows[indices], own[indices] = read.rows, read.own
                if len(read.dense):
                    dense["bias"], dense_own["bias"] = read.dense, read.own
            clock = min(read.clock for _, read in reading.found.values())
            reading.answer.set_result(RemoteRead(rows, own, dense, dense_own, clock, rows.nbytes))
            worker.reads.popleft()

    def _take(self, worker: Scheduled) -> None:
        clock, request = worker.requests.popleft()
        weights, dense = worker.view.take(request)
        self._check(worker, clock, weights, dense["bias"])
        if clock + 1 < self.clocks and self.random.random() < 0.7:
            self._request(worker, clock + 1)
        worker.taken = True

    def _send(self, worker: Scheduled) -> None:
        clock, worker.taken = worker.clock, False
        keys = worker.pushed[clock]
        gradients = np.zeros((len(keys), WORKERS), np.float32)
        gradients[:, worker.index] = -1.0
        bias = np.zeros(WORKERS, np.float32)
        bias[worker.index] = 1.0
        self.servers.numbers[worker.index] += 1
        number = self.servers.numbers[worker.index]
        worker.view.note(OwnStep(number, keys, gradients, {"bias": bias}, 0))
        indices, bounds = self.servers.partition.split(keys)
        for server, shard in enumerate(self.servers.shards):
            chunk = GradientChunk("float32", keys, gradients).take(indices[bounds[server] : bounds[server + 1]])
            own = bias if shard.matrices else bias[:0]
            step = WorkerStep(
                worker.index,
                self.first + clock,
                encode_chunks([chunk], pack_keys=True),
                own,
                last=clock + 1 == self.clocks,
            )
            worker.mail[server] += [(number, step.to_bytes())] * self.random.choice((1, 1, 2))
        worker.clock += 1

    def _deliver(self, worker: Scheduled, server: int) -> None:
        number, data = worker.mail[server].popleft()
        self.servers.shards[server].step(worker_name(worker.index), number, data)

    def _check(self, worker: Scheduled, clock: int, weights: Any, bias: Any) -> None:
        """The rule: all steps stamped clock - staleness - 1 or older, all of its own, and none that was not sent."""
        self.reads += 1
        for other in self.team:
            least = clock if other is worker else max(0, min(clock - self.staleness, self.clocks))
            most = clock if self.staleness == 0 or other is worker else other.clock
            needed, sent = np.zeros(len(weights)), np.zeros(len(weights))
            for stamp in range(self.clocks):
                has = np.isin(worker.keys[clock], other.pushed[stamp])
                needed += has & (stamp < least)
                sent += has & (stamp < most)
            found = weights[:, other.index]
            assert np.all(found >= needed), f"worker {worker.index} at clock {clock} misses a step of {other.index}"
            assert np.all(found <= sent), f"worker {worker.index} at clock {clock} has a step of {other.index} twice"
            count = self.servers.bias[other.index] - bias[other.index]
            assert least <= count <= most, f"worker {worker.index} at clock {clock} has {count} matrix steps"
