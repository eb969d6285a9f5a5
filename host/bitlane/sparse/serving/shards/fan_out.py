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
from bitlane.sparse.scoring.layers import Floats, Found, Keys
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.latencies import HedgeBudget, RecentLatencies
from bitlane.sparse.serving.shards.replica import Arrival, Lookup, Replica

Places = NDArray[np.int64]


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
    found : bool [n]
    missing : dict from int to str
        The shards that did not answer, and why.
    """

    weights: Floats
    found: Found
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
        self._replicas, self._partition, self._options = replicas, partition, options
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
        found = PartialWeights(np.zeros((len(keys), values), np.float32), np.zeros(len(keys), np.bool_), {})
        waiting = {
            shard: _Part(Lookup(shard, wire.key_batch(keys[places]), len(places), version, values, until), places)
            for shard, places in self._places(keys)
        }
        self.budget.add(len(waiting))
        for part in list(waiting.values()):
            self._begin(part, arrivals, waiting, found)
        while waiting:
            wake = min(until, *(part.hedge_at for part in waiting.values()))
            try:
                arrival = arrivals.get(timeout=max(wake - time.monotonic(), 0.0))
            except Empty:
                if time.monotonic() >= until:
                    break
                self._hedge(waiting, arrivals)
                continue
            if arrival.lookup.shard not in waiting:
                continue  # another replica was quicker
            part = waiting[arrival.lookup.shard]
            if arrival.found is None:
                part.running -= 1
                part.problem = str(arrival.error)
                self._begin(part, arrivals, waiting, found)
                continue
            del waiting[arrival.lookup.shard]
            part.lookup.is_done = True
            found.weights[part.places], found.found[part.places] = arrival.found
            self._latencies[arrival.lookup.shard].add(arrival.seconds)
        for shard, part in waiting.items():
            part.lookup.is_done = True
            found.missing[shard] = part.problem or f"no answer in {self._options.deadline:g} s"
        return found

    def _places(self, keys: Keys) -> Iterator[tuple[int, Places]]:
        """Yield each shard that has some of the keys, and their places."""
        places, bounds = self._partition.split(keys)
        for shard, (first, last) in enumerate(itertools.pairwise(bounds)):
            if last > first:
                yield shard, places[first:last]

    def _begin(
        self, part: _Part, arrivals: SimpleQueue[Arrival], waiting: dict[int, _Part], found: PartialWeights
    ) -> None:
        """Ask a replica; a shard with none left to ask or to wait for is missing."""
        shard = part.lookup.shard
        if not self._ask(part, arrivals) and part.running == 0:
            del waiting[shard]
            found.missing[shard] = part.problem or self._absence(part)

    def _hedge(self, waiting: dict[int, _Part], arrivals: SimpleQueue[Arrival]) -> None:
        """Ask a second replica for the parts whose time has come, as far as the budget allows it."""
        now = time.monotonic()
        for part in waiting.values():
            if part.hedge_at <= now:
                part.hedge_at = math.inf
                if self._left(part) and self.budget.take():
                    self._ask(part, arrivals)

    def _ask(self, part: _Part, arrivals: SimpleQueue[Arrival]) -> bool:
        """Ask a replica that was not asked before; return whether there was one that was not busy."""
        while left := self._left(part):
            shares = [replica.health.cost**-2 for replica in left]
            replica = random.choices(left, shares)[0]
            part.tried.append(replica)
            if replica.begin(part.lookup, arrivals.put):
                part.running += 1
                if len(part.tried) == 1:
                    part.hedge_at = time.monotonic() + self._latencies[part.lookup.shard].wait
                return True
            part.problem = part.problem or f"{self._options.requests} requests run"
        return False

    def _left(self, part: _Part) -> list[Replica]:
        """Return the replicas that can be asked and were not."""
        shard = self._replicas[part.lookup.shard]
        return [each for each in shard if each.has(part.lookup.version) and each not in part.tried]

    def _absence(self, part: _Part) -> str:
        """Return why no replica of a shard can be asked."""
        problems = [replica.health.problem for replica in self._replicas[part.lookup.shard]]
        return next((each for each in problems if each), f"no replica holds version {part.lookup.version}")


@dataclass(eq=False)
class _Part:
    """The keys of one shard in a lookup."""

    lookup: Lookup
    places: Places
    tried: list[Replica] = field(default_factory=list)
    running: int = 0
    hedge_at: float = math.inf
    problem: str | None = None
