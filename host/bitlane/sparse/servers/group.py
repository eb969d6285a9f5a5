"""Requests to all servers of a model: connections, attempts until a deadline, updates exactly once."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.servers.connection import Connection, ConnectionLost, DeadlineExceeded, Identity, Record
from bitlane.sparse.servers.failures import ServerClosing
from bitlane.sparse.servers.reads import ReadTooEarly
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.wire import ServerBusy, ServerRestarted

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1  # seconds between attempts

Self = TypeVar("Self", bound="ServerGroup")


@dataclass(eq=False)
class Call:
    """A request to one server."""

    server: int
    lane: str
    batch: Any
    request: Record = field(default_factory=dict)
    answer: Any = None  # the batch of the answer
    reply: Record = field(default_factory=dict)  # the record beside it
    done: bool = False
    error: BitlaneError | None = None  # why it was not done in the last attempt


class ServerGroup:
    """The servers of one model.

    The methods that read and those that update may each be called by one thread at a time: one thread may read while
    another updates. Requests to several servers run at once.

    Each update is applied exactly once, even if the connection is lost or servers crash and restart: it is sent again
    with the same sequence. If a method that updates raises an error that is not a `DataError`, the update is
    retained: `flush` and the next update send it first. Do not send it again. A `DataError` means that a server refused
    it.

    Parameters
    ----------
    addresses : sequence of str
        ``host:port`` of each server, in their order.
    worker : str, optional
        Name of this worker. Two workers that run must not share one. Default: a random one.
    generation : int, default=0
        Of the worker's process, if it was started again: servers refuse earlier ones, which may still live elsewhere.
    token : str, optional
    certificates : str, optional
        Of the authorities that signed the servers' certificates, PEM. With them, the connection is by TLS.
    deadline : float, default=30.0
        Seconds that a call may take, attempts included.
    find : callable, optional
        From the number of a server to its address now; asked before each new connection after the first, because a
        restarted server may have another address.

    Attributes
    ----------
    spec : ShardSpec
        Of server 0.
    layout : Layout
        Of a row.
    worker : str

    Raises
    ------
    DataError
        The addresses are not those of all servers of one model in order.
    BitlaneError
        A server cannot be reached, wants another token, or has another version.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        worker: str | None = None,
        generation: int = 0,
        token: str | None = None,
        certificates: str | None = None,
        deadline: float = 30.0,
        find: Callable[[int], str] | None = None,
    ):
        if not addresses:
            raise DataError("pass the address of at least one server")
        self.worker = worker or uuid.uuid4().hex
        self.deadline, self._find = deadline, find
        self._identity = identity = Identity(self.worker, uuid.uuid4().hex, token, certificates, generation)
        self._readers = [Connection(address, identity, False) for address in addresses]
        self._updaters = [Connection(address, identity, True) for address in addresses]
        self._reading, self._updating = threading.Lock(), threading.Lock()
        self._last = [0] * len(addresses)  # updates of this worker that each server has acknowledged
        self._greetings: list[Record] = []  # what each server said first
        self._retained: list[list[Call]] = []  # updates that were not acknowledged, the oldest first
        try:
            specs = [self._greet(server) for server in range(len(addresses))]
        except BaseException:
            self.close()
            raise
        self.spec = specs[0]
        self._partition = self.spec.partition
        self.layout = Layout(self.spec.blocks)
        names = [(name, self._partition.owner_of_name(name)) for name in self.spec.matrices]
        self._matrices = [
            {name: self.spec.matrices[name] for name, at in names if at == each} for each in range(len(specs))
        ]

    # --- care
    def flush(self) -> None:
        """Send the updates again that were not acknowledged, if there are any; errors as of `TrainingServers.step`."""
        self._update([])

    def status(self) -> list[Record]:
        """Return the status of each server; see `ParameterShard.status`."""
        return self._actions("status")

    def checkpoint(self) -> list[str]:
        """Let each server write a checkpoint, one after the other; return their folders."""
        return [str(answer["path"]) for answer in self._actions("checkpoint")]

    def publish(self, requests: Sequence[Record], seconds: float) -> list[Record]:
        """Let all servers write their files of a version at once; see `ShardPublisher.publish`.

        Parameters
        ----------
        requests : sequence of dict
            To each server.
        seconds : float
            That it may take.

        Raises
        ------
        BitlaneError
            A server cannot be reached, or cannot write.
        """
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(len(requests)) as pool:
            futures = [
                pool.submit(self._action, server, "publish", each, until) for server, each in enumerate(requests)
            ]
        return [each.result() for each in futures]

    def stop_servers(self) -> None:
        """Let each server write a checkpoint and end."""
        self._actions("stop")

    def close(self) -> None:
        """End the connections. Updates that are retained are lost."""
        for connection in (*self._readers, *self._updaters):
            connection.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside
    def _update(self, calls: list[Call]) -> None:
        with self._updating:
            self._retained.append(calls)
            while self._retained:
                for call in self._retained[0]:  # only now: a retained update has the number before it
                    call.request.setdefault("sequence", self._last[call.server] + 1)
                try:
                    self._exchange(self._updaters, self._retained[0], self._acknowledge)
                except DataError:
                    raise
                except BitlaneError as error:
                    raise type(error)(f"{error}; the update is retained: `flush` sends it again") from error
                finally:
                    self._retained[0] = [call for call in self._retained[0] if not call.done]
                    if not self._retained[0]:
                        del self._retained[0]

    def _acknowledge(self, call: Call) -> None:
        self._last[call.server] = int(call.reply["last"])

    def _exchange(
        self,
        connections: Sequence[Connection],
        calls: list[Call],
        on_end: Callable[[Call], None] = lambda call: None,
    ) -> None:
        """Send all calls, then take their answers; again for those that failed, until the deadline."""
        until, pause = time.monotonic() + self.deadline, _FIRST_PAUSE
        left = calls
        for connection in connections:
            connection.begin(until)
        try:
            while True:
                sent = [call for call in left if self._attempt(call, lambda call: self._send(connections, call, until))]
                for call in sent:
                    self._attempt(call, lambda call: self._receive(connections, call, on_end))
                refused = [call for call in left if isinstance(call.error, DataError)]
                for call in refused:
                    call.done = True
                final = [call.error for call in left if call.error is not None and not _may_pass(call.error)]
                left = [call for call in left if not call.done]
                if final:
                    raise final[0]
                if not left:
                    return
                if all(isinstance(call.error, ReadTooEarly) for call in left):
                    pause = 0.0  # the servers have waited
                if time.monotonic() + pause > until:
                    raise DeadlineExceeded(f"{_cause(left)}; gave up after {self.deadline:g} s")
                time.sleep(pause)
                pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        except BaseException:
            for call in left:
                connections[call.server].close()  # an answer may be on its way
            raise
        finally:
            for connection in connections:
                connection.until = math.inf

    def _attempt(self, call: Call, step: Callable[[Call], None]) -> bool:
        """Take a step of a call; return whether it went well."""
        try:
            step(call)
            call.error = None
        except BitlaneError as error:
            call.error = error
        return call.error is None

    def _send(self, connections: Sequence[Connection], call: Call, until: float) -> None:
        connection = connections[call.server]
        if not connection.is_open:
            if self._find is not None:
                connection.address = self._find(call.server)
            answer = connection.hello(until)
            if connections is self._updaters:
                self._check_last(call.server, int(answer["last"]))
        connection.send(call.lane, call.batch, call.request)

    def _receive(self, connections: Sequence[Connection], call: Call, on_end: Callable[[Call], None]) -> None:
        call.answer, call.reply = connections[call.server].receive(call.lane)
        call.done = True
        on_end(call)

    def _check_last(self, server: int, last: int) -> None:
        """Compare the updates that a server has with those it acknowledged, after a new connection."""
        known = self._last[server]
        sent = any(call.server == server for call in self._retained[0]) if self._retained else False
        if last not in (known, known + sent):
            self._updaters[server].close()
            what = "has lost updates" if last < known else "has updates of another client"
            raise BitlaneError(
                f"server {self._updaters[server].address} {what} of worker {self.worker!r}: "
                f"it has {last}, and acknowledged {known}"
            )

    def _hello(self, connection: Connection, server: int, until: float) -> Record:
        """Connect. If `find` is given, wait for a server that restarts."""
        while self._find is not None:
            try:
                connection.address = self._find(server)
                return connection.hello(until)
            except (ConnectionLost, ServerClosing):
                if time.monotonic() + _LONGEST_PAUSE > until:
                    raise
                time.sleep(_LONGEST_PAUSE)
        return connection.hello(until)

    def _greet(self, server: int) -> ShardSpec:
        until = time.monotonic() + self.deadline
        self._hello(self._readers[server], server, until)
        answer = self._hello(self._updaters[server], server, until)
        self._last[server] = int(answer["last"])
        self._greetings.append(answer)
        spec = ShardSpec.from_json(answer["spec"])
        address, servers = self._updaters[server].address, len(self._updaters)
        if (spec.server, spec.servers) != (server, servers):
            raise DataError(
                f"{address} is server {spec.server} of {spec.servers}; it was given as server {server} of {servers}"
            )
        if server and not spec.same_model(self.spec):
            raise DataError(f"{address} serves another model than {self._updaters[0].address}")
        self.spec = self.spec if server else spec
        return spec

    def _actions(self, name: str) -> list[Record]:
        return [
            self._action(server, name, {}, time.monotonic() + self.deadline) for server in range(len(self._readers))
        ]

    def _action(self, server: int, name: str, request: Record, until: float) -> Record:
        """Call an action; a status is asked again, like a request, if servers may restart and a connection is lost."""
        again = name == "status" and self._find is not None
        while True:
            connection = Connection(self._readers[server].address, self._identity, False)  # holds up no read
            try:
                self._hello(connection, server, until)
                return connection.action(name, request, connection.last_moment(until) if again else until)
            except (ConnectionLost, DeadlineExceeded, ServerClosing):
                if not again or time.monotonic() + _LONGEST_PAUSE > until:
                    raise
                time.sleep(_LONGEST_PAUSE)
            finally:
                connection.close()


def _cause(calls: Sequence[Call]) -> BitlaneError | None:
    """Return why calls were not done: because a server is lost, rather than because another waits for its workers."""
    errors = [call.error for call in calls]
    return next((each for each in errors if not isinstance(each, ReadTooEarly)), errors[0])


def _may_pass(error: BitlaneError) -> bool:
    """Whether the same request may be done a little later."""
    passing = ConnectionLost | DeadlineExceeded | ServerBusy | ServerClosing | ServerRestarted | ReadTooEarly
    return isinstance(error, passing)
