"""One replica of a shard, as a front sees it: what it holds, how quick it is, and the requests to it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.scoring.layers import Floats, Known
from bitlane.sparse.servers.connection import Connection, ConnectionLost, DeadlineExceeded, Identity, Record
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.wire import RequestExpired, ServerBusy, VersionMissing
from bitlane.sparse.serving.shards.health import Health
from bitlane.sparse.serving.shards.messages import LANE, weights_of_answer

_PING_SECONDS, _PING_DEADLINE = 0.25, 2.0
_AGAIN_SECONDS = 30.0  # before a version that could not be loaded is tried again

FindAddress = Callable[[], "str | None"]


@dataclass(eq=False)
class Lookup:
    """A request for the weights of one shard.

    Attributes
    ----------
    shard : int
    batch : record batch
        The keys.
    count : int
        Of keys.
    version : int
    values : int
        Weights of a key.
    until : float
        The deadline, by `time.monotonic`.
    is_done : bool
        It has been answered: it need not be sent any more.
    """

    shard: int
    batch: Any
    count: int
    version: int
    values: int
    until: float
    is_done: bool = False


@dataclass(frozen=True)
class Arrival:
    """The end of a request to a replica: weights and known keys, or an error."""

    lookup: Lookup
    seconds: float
    result: tuple[Floats, Known] | None = None
    error: BitlaneError | None = None


Deliver = Callable[[Arrival], None]


class Replica:
    """One replica. A thread watches it.

    Parameters
    ----------
    shard : int
    partition : Partition
    find : callable
        Returns the address now, or None: a replica that was started again may have another one.
    identity : Identity
    requests : int
        That may run at once.
    on_change : callable
        Called when it has come, gone, or loaded a version.

    Attributes
    ----------
    health : Health
    versions : frozenset of int
        That it holds.
    """

    def __init__(
        self,
        shard: int,
        partition: Partition,
        find: FindAddress,
        identity: Identity,
        requests: int,
        on_change: Callable[[], None],
    ):
        self._shard = shard
        self._partition = partition
        self._find = find
        self._identity = identity
        self._on_change = on_change
        self._pool = ThreadPoolExecutor(requests, f"bitlane-shard-{shard}")
        self._permits = threading.BoundedSemaphore(requests)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._idle: list[Connection] = []
        self._ping = Connection("", identity, False)
        self._wanted: tuple[int, ...] = ()
        self._loads: dict[int, float] = {}  # when it was asked to load a version that it does not have yet
        self._failed: dict[int, str] = {}
        self.health, self.versions = Health(), frozenset[int]()
        self._thread = threading.Thread(target=self._watch, name="bitlane-replica", daemon=True)
        self._thread.start()

    # --- what it holds
    def want(self, versions: tuple[int, ...], again: int | None = None) -> None:
        """Let the replica hold these versions; `again` is loaded even if that has just failed."""
        self._wanted = versions
        if again is not None:
            self._loads.pop(again, None)
        self._wake.set()

    def has(self, version: int) -> bool:
        """Return whether it is well and holds a version."""
        return self.health.is_well and version in self.versions

    def failure(self, version: int) -> str | None:
        """Return why it could not load a version, or None."""
        return self._failed.get(version) if version in self._loads else None

    def state(self) -> Record:
        """Return what people want to know of it."""
        return {
            "shard": self._shard,
            "address": self._ping.address,
            "versions": sorted(self.versions),
            "problem": self.health.problem,
            "milliseconds": 1e3 * self.health.seconds,
            "asked": self.health.asked,
        }

    # --- requests
    def begin(self, lookup: Lookup, deliver: Deliver) -> bool:
        """Send a request by a thread, which delivers its end; return False if too many run."""
        if self._ended or not self._permits.acquire(blocking=False):
            return False
        self.health.begin()
        self._pool.submit(self._run, lookup, deliver)
        return True

    def _run(self, lookup: Lookup, deliver: Deliver) -> None:
        begin = time.monotonic()
        try:
            result, error = self._exchange(lookup), None
        except BitlaneError as reason:
            result, error = None, reason
        except Exception as reason:  # the front must hear of it
            result, error = None, BitlaneError(f"{type(reason).__name__}: {reason}")
        seconds = time.monotonic() - begin
        self._note(lookup, seconds, error)
        self._permits.release()
        deliver(Arrival(lookup, seconds, result, error))

    def _exchange(self, lookup: Lookup) -> tuple[Floats, Known]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                return self._ask(connection, lookup)
            except ConnectionLost:  # it was idle; those that are idle still may be lost, too
                self._drop_idle()
        return self._ask(Connection(self._address(), self._identity, False), lookup)

    def _ask(self, connection: Connection, lookup: Lookup) -> tuple[Floats, Known]:
        try:
            if not connection.is_open:
                connection.hello(lookup.until)
            seconds = lookup.until - time.monotonic()
            if lookup.is_done or seconds <= 0:
                raise RequestExpired("it is no longer needed")
            connection.until = lookup.until
            connection.send(LANE, lookup.batch, {"version": lookup.version, "seconds": seconds})
            batch, _ = connection.receive(LANE)
            return weights_of_answer(batch, lookup.count, lookup.values)
        finally:
            connection.until = math.inf
            with self._lock:
                is_reusable = connection.is_open and not self._ended
                if is_reusable:
                    self._idle.append(connection)
            if not is_reusable:
                connection.close()

    def _note(self, lookup: Lookup, seconds: float, error: BitlaneError | None) -> None:
        """Note the end of a request."""
        if error is None:
            self.health.answer(seconds)
            return
        if isinstance(error, RequestExpired | VersionMissing):
            self.health.drop()
        elif isinstance(error, ServerBusy):
            self.health.refuse()
        elif isinstance(error, DeadlineExceeded):
            self.health.silence(seconds)
        else:
            self.health.fail(str(error), running=True)
        if isinstance(error, VersionMissing):
            self.versions -= {lookup.version}
        if not self.has(lookup.version):
            self._wake.set()
            self._on_change()

    # --- care
    def close(self) -> None:
        """End all connections. Requests that run end at their deadline."""
        self._ended = True
        self._wake.set()
        self._thread.join()
        self._pool.shutdown()
        self._drop_idle()
        self._ping.close()

    def _watch(self) -> None:
        """Ask what the replica holds, and let it load what it lacks, until the end."""
        while not self._ended:
            self._wake.clear()
            before = self.health.is_well, self.versions, self._failed
            try:
                self._learn(self._status())
            except BitlaneError as error:
                self.versions = frozenset()
                self.health.fail(str(error), running=False)
            if before != (self.health.is_well, self.versions, self._failed):
                self._on_change()
            self._wake.wait(self.health.pause or _PING_SECONDS)

    def _status(self) -> Record:
        until, address = time.monotonic() + _PING_DEADLINE, self._address()
        if not self._ping.is_open or self._ping.address != address:
            self._ping.close()
            self._drop_idle()
            self._ping.address = address
            self._check_shard(self._ping.hello(until))
            self._loads.clear()  # it may be another process
        wanted = self._wanted
        state = self._ping.action("status", {"using": wanted}, until)
        for version in reversed(wanted):
            lacks = version not in state["versions"] and version not in state["loading"]
            pause = _AGAIN_SECONDS if str(version) in state["failed"] else 0.0
            if lacks and time.monotonic() > self._loads.get(version, -math.inf) + pause:
                state = self._ping.action("load", {"version": version}, until)
                self._loads[version] = time.monotonic()
        return state

    def _learn(self, state: Record) -> None:
        self._failed = {int(version): str(reason) for version, reason in state["failed"].items()}
        self.versions = frozenset(state["versions"])
        for version in self.versions:
            self._loads.pop(version, None)
        self.health.pong()

    def _check_shard(self, state: Record) -> None:
        reported = state.get("shard"), state.get("shards"), state.get("virtual_shards")
        expected = self._shard, self._partition.servers, self._partition.virtual_shards
        if reported != expected:
            self._ping.close()
            raise DataError(
                f"{self._ping.address} serves shard {reported[0]} of {reported[1]} with {reported[2]} virtual shards; "
                f"it was given as shard {expected[0]} of {expected[1]} with {expected[2]}"
            )

    def _address(self) -> str:
        address = self._find()
        if address is None:
            raise ConnectionLost(f"a replica of shard {self._shard} is not running")
        return address

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
