"""One lookup in all shards: a replica of each at once, a second one where the first is slow, until a deadline."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.scoring.layers import Floats, Keys, Known
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.latencies import HedgeBudget, RecentLatencies
from bitlane.sparse.serving.shards.replica import Arrival, Lookup, Replica

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class FrontOptions:
    """How a front asks the replicas.

    Attributes
    ----------
    deadline : float, default=0.1
        Seconds that a lookup may take.
    quantile : float, default=0.95
        Of the seconds of a shard's answers: after so long, another replica is asked too.
    extra : float, default=0.1
        The share of requests that may be sent to another replica so. 0: none.
    requests : int, default=16
        To one replica at once; more count as busy.

    Raises
    ------
    DataError
    """

    deadline: float = 0.1
    quantile: float = 0.95
    extra: float = 0.1
    requests: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.deadline < float("inf"):
            raise DataError(f"the deadline must be above 0 seconds; got {self.deadline}")
        if not 0 < self.quantile < 1:
            raise DataError(f"the quantile must be between 0 and 1; got {self.quantile}")
        if not 0 <= self.extra <= 1:
            raise DataError(f"the share of extra requests must be 0 to 1; got {self.extra}")
        if self.requests < 1:
            raise DataError(f"requests to a replica must be at least 1; got {self.requests}")


@dataclass(frozen=True)
class PartialWeights:
    """The weights that came in time.

    Attributes
    ----------
    weights : float32 [n, values]
        Zeros where a key is unknown, or its shard is missing.
    known : bool [n]
    missing : dict from int to str
        The shards that did not answer, and why.
    """

    weights: Floats
    known: Known
    missing: dict[int, str]


class FanOut:
    """Lookups in all shards. For several threads.

    Parameters
    ----------
    replicas : sequence of sequences of Replica
        Of each shard.
    partition : Partition
    options : FrontOptions

    Attributes
    ----------
    budget : HedgeBudget
        Counts the requests to shards, and the extra ones.
    """

    def __init__(self, replicas: Sequence[Sequence[Replica]], partition: Partition, options: FrontOptions):
        self._replicas = replicas
        self._partition = partition
        self._options = options
        self.budget = HedgeBudget(options.extra)
        self._latencies = [RecentLatencies(options.quantile, options.deadline / 2) for _ in replicas]

    def ask(self, version: int, values: int, keys: Keys) -> PartialWeights:
        """Return the weights of keys, uint64 [n], of one version, as far as they come until the deadline.

        Each shard is asked for its keys at one replica: a quick one is likelier to be chosen. Another replica is asked
        if that one fails or is busy, or if it has not answered after the quantile of the shard's seconds and the
        budget allows it. The first answer counts.
        """
        until = time.monotonic() + self._options.deadline
        arrivals: SimpleQueue[Arrival] = SimpleQueue()
        result = PartialWeights(np.zeros((len(keys), values), np.float32), np.zeros(len(keys), np.bool_), {})
        waiting = {
            shard: _ShardRequest(
                Lookup(shard, wire.key_batch(keys[positions]), len(positions), version, values, until), positions
            )
            for shard, positions in self._positions(keys)
        }
        self.budget.add(len(waiting))
        for request in list(waiting.values()):
            self._begin(request, arrivals, waiting, result)
        while waiting:
            wake = min(until, *(request.hedge_at for request in waiting.values()))
            try:
                arrival = arrivals.get(timeout=max(wake - time.monotonic(), 0.0))
            except Empty:
                if time.monotonic() >= until:
                    break
                self._hedge(waiting, arrivals)
                continue
            if arrival.lookup.shard not in waiting:
                continue  # another replica was quicker
            request = waiting[arrival.lookup.shard]
            if arrival.result is None:
                request.running -= 1
                request.problem = str(arrival.error)
                self._begin(request, arrivals, waiting, result)
                continue
            del waiting[arrival.lookup.shard]
            request.lookup.is_done = True
            result.weights[request.positions], result.known[request.positions] = arrival.result
            self._latencies[arrival.lookup.shard].add(arrival.seconds)
        for shard, request in waiting.items():
            request.lookup.is_done = True
            result.missing[shard] = request.problem or f"no answer in {self._options.deadline:g} s"
        return result

    def _positions(self, keys: Keys) -> Iterator[tuple[int, Positions]]:
        """Yield each shard that has some of the keys, and their positions."""
        positions, bounds = self._partition.split(keys)
        for shard, (first, last) in enumerate(itertools.pairwise(bounds)):
            if last > first:
                yield shard, positions[first:last]

    def _begin(
        self,
        request: _ShardRequest,
        arrivals: SimpleQueue[Arrival],
        waiting: dict[int, _ShardRequest],
        result: PartialWeights,
    ) -> None:
        """Ask a replica; a shard with none left to ask or to wait for is missing."""
        shard = request.lookup.shard
        if not self._ask(request, arrivals) and request.running == 0:
            del waiting[shard]
            result.missing[shard] = request.problem or self._absence(request)

    def _hedge(self, waiting: dict[int, _ShardRequest], arrivals: SimpleQueue[Arrival]) -> None:
        """Ask a second replica for the shards whose time has come, as far as the budget allows it."""
        now = time.monotonic()
        for request in waiting.values():
            if request.hedge_at <= now:
                request.hedge_at = math.inf
                if self._left(request) and self.budget.take():
                    self._ask(request, arrivals)

    def _ask(self, request: _ShardRequest, arrivals: SimpleQueue[Arrival]) -> bool:
        """Ask a replica that was not asked before; return whether there was one that was not busy."""
        while left := self._left(request):
            shares = [replica.health.cost**-2 for replica in left]
            replica = random.choices(left, shares)[0]
            request.tried.append(replica)
            if replica.begin(request.lookup, arrivals.put):
                request.running += 1
                if len(request.tried) == 1:
                    request.hedge_at = time.monotonic() + self._latencies[request.lookup.shard].wait
                return True
            request.problem = request.problem or f"{self._options.requests} requests run"
        return False

    def _left(self, request: _ShardRequest) -> list[Replica]:
        """Return the replicas that can be asked and were not."""
        shard = self._replicas[request.lookup.shard]
        return [each for each in shard if each.has(request.lookup.version) and each not in request.tried]

    def _absence(self, request: _ShardRequest) -> str:
        """Return why no replica of a shard can be asked."""
        problems = [replica.health.problem for replica in self._replicas[request.lookup.shard]]
        return next((each for each in problems if each), f"no replica holds version {request.lookup.version}")


@dataclass(eq=False)
class _ShardRequest:
    """The keys of one shard in a lookup."""

    lookup: Lookup
    positions: Positions
    tried: list[Replica] = field(default_factory=list)
    running: int = 0
    hedge_at: float = math.inf
    problem: str | None = None
