"""The front of a sharded model: its replicas, the version that all shards have, and its table of weights."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable

from bitlane.errors import BitlaneError
from bitlane.sparse.scoring.layers import Floats, Keys, Known
from bitlane.sparse.servers.connection import Identity, Record
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.fan_out import FanOut, FrontOptions, PartialWeights
from bitlane.sparse.serving.shards.replica import Replica

FindReplica = Callable[[int, int], "str | None"]  # from shard and replica to the address now


class Front:
    """Asks the weight servers of all shards. For several threads.

    Parameters
    ----------
    find : callable
        From the number of a shard and of a replica to its address now, or None.
    shards, replicas : int
    options : FrontOptions, optional
    token : str, optional
    certificates : str, optional
        Of the authorities that signed the servers' certificates, PEM. With them, connections are by TLS.

    Attributes
    ----------
    partition : Partition
    options : FrontOptions
    replicas : list of lists of Replica
        Of each shard.
    """

    def __init__(
        self,
        find: FindReplica,
        shards: int,
        replicas: int,
        options: FrontOptions | None = None,
        *,
        token: str | None = None,
        certificates: str | None = None,
    ):
        self.partition, self.options = Partition(shards), options or FrontOptions()
        self._changed = threading.Condition()
        self._wanted: tuple[int, ...] = ()  # the version before, and the current one
        self._used: int | None = None
        name = uuid.uuid4().hex
        identity = Identity(name, name, token, certificates)

        def made(shard: int, replica: int) -> Replica:
            address = functools.partial(find, shard, replica)
            return Replica(shard, self.partition, address, identity, self.options.requests, self._change)

        self.replicas = [[made(shard, replica) for replica in range(replicas)] for shard in range(shards)]
        self._fan_out = FanOut(self.replicas, self.partition, self.options)

    def load(self, version: int, seconds: float = 600.0) -> None:
        """Let all replicas load a version, and wait until each shard has a replica that holds it.

        Replicas that come later load it, too, and the version that was in use before.

        Raises
        ------
        BitlaneError
            No replica of a shard can load it, or not in time. The version before remains.
        """
        before = self._wanted
        used = self._used if self._used is not None else next(reversed(before), version)
        self._want((version,) if used == version else (used, version), again=version)
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._has_all(version) or self._refusal(version), seconds)
            if not self._has_all(version):
                raise BitlaneError(self._refusal(version) or self._lateness(version, seconds))
        except BaseException:
            self._want(before)
            raise

    def table(self, version: int, values: int) -> FrontTable:
        """Return the weights of a version, `values` of each key; load it before."""
        return FrontTable(self, version, values)

    def ask(self, version: int, values: int, keys: Keys) -> PartialWeights:
        """Return the weights of keys from all shards, as far as they come until the deadline."""
        self._used = version
        return self._fan_out.ask(version, values, keys)

    def state(self) -> Record:
        """Return the state of each replica, and the requests so far."""
        return {
            "version": self._used,
            "requests": self._fan_out.budget.requests,
            "extra": self._fan_out.budget.extra,
            "replicas": [replica.state() for shard in self.replicas for replica in shard],
        }

    def close(self) -> None:
        """End all connections; requests that run end first."""
        for shard in self.replicas:
            for replica in shard:
                replica.close()

    # --- inside
    def _want(self, versions: tuple[int, ...], again: int | None = None) -> None:
        self._wanted = versions
        for shard in self.replicas:
            for replica in shard:
                replica.want(versions, again)

    def _change(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _has_all(self, version: int) -> bool:
        return all(any(replica.has(version) for replica in shard) for shard in self.replicas)

    def _refusal(self, version: int) -> str | None:
        """Return why a shard cannot load a version, or None: it may yet."""
        for number, shard in enumerate(self.replicas):
            failures = [replica.failure(version) for replica in shard if replica.health.is_well]
            if failures and all(failures):
                return f"shard {number} cannot load version {version}: {failures[0]}"
        return None

    def _lateness(self, version: int, seconds: float) -> str:
        for number, shard in enumerate(self.replicas):
            if not any(replica.has(version) for replica in shard):
                problem = next((each.health.problem for each in shard if each.health.problem), "it is still loading")
                return f"shard {number} has not loaded version {version} in {seconds:g} s: {problem}"
        return f"version {version} was not loaded in {seconds:g} s"


class ShardsMissing(BitlaneError):
    """Some shards did not answer, and a partial answer was not asked for."""


class FrontTable:
    """The weights of one version on all shards: a `WeightTable`. Make one by `Front.table`.

    Parameters
    ----------
    front : Front
    version : int
    values : int
        Weights of a key.
    """

    def __init__(self, front: Front, version: int, values: int):
        self._front = front
        self.version = version
        self._values = values

    @property
    def nbytes(self) -> int:
        """0: the weights are elsewhere."""
        return 0

    def lookup(self, keys: Keys) -> tuple[Floats, Known]:
        """Return the weights of keys and which are known, as `WeightTable.lookup`.

        Raises
        ------
        ShardsMissing
            A shard did not answer in time.
        """
        result = self.lookup_partial(keys)
        for shard, problem in result.missing.items():
            raise ShardsMissing(f"shard {shard} did not answer: {problem}")
        return result.weights, result.known

    def lookup_partial(self, keys: Keys) -> PartialWeights:
        """Return the weights of keys as far as they came in time."""
        return self._front.ask(self.version, self._values, keys)
