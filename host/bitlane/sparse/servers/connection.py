"""A worker's connection to one server: lanes that stay open, and a watch that ends what takes too long."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import heartbeats, wire
from bitlane.sparse.servers.security import token_headers
from bitlane.sparse.servers.wire import flight

SILENT_SECONDS = 15.0  # without a sign of life, after which a connection counts as lost
_WATCH_SECONDS, _CONNECT_SECONDS = 0.05, 5.0
_LONGEST_MS = (1 << 31) - 2
_GRPC = [
    ("grpc.use_local_subchannel_pool", 1),  # else a new client inherits the pause after a refused connection
    ("grpc.min_reconnect_backoff_ms", int(1000 * _CONNECT_SECONDS)),  # how long it tries to connect
    # Servers of gRPC refuse frequent pings, but the option also lets TCP give up data that nobody acknowledges.
    ("grpc.keepalive_time_ms", _LONGEST_MS),
    ("grpc.keepalive_timeout_ms", int(1000 * SILENT_SECONDS)),
]
_LATE = "did not answer in time"
_CERTIFICATE = ("not in peer certificate", "certificate verify failed", "certificate_verify_failed")

Record = dict[str, Any]


class ConnectionLost(BitlaneError):
    """The connection ended, or was not made: the request may or may not have been done."""


class DeadlineExceeded(BitlaneError):
    """The server did not answer in time."""


@dataclass(frozen=True)
class Identity:
    """Who calls.

    Attributes
    ----------
    worker : str
        Name of the worker.
    client : str
        Random: the server takes updates of a worker from the client, and of it the connection, that came last.
    token : str or None
    certificates : str or None
        Of the authorities that signed the servers' certificates, PEM: the connection is by TLS.
    generation : int
        A server that knows a later generation of the worker refuses this one.
    """

    worker: str
    client: str
    token: str | None = field(default=None, repr=False)
    certificates: str | None = None
    generation: int = 0


class Connection:
    """One connection; one thread at a time may use it.

    Parameters
    ----------
    address : str
        ``host:port``.
    identity : Identity
    updates : bool
        Whether it sends updates.
    """

    def __init__(self, address: str, identity: Identity, updates: bool):
        self.address, self._identity, self._updates = address, identity, updates
        self._client: Any = None
        self._lanes: dict[str, tuple[Any, Any]] = {}  # writer and reader
        self._number = 0
        self._greetings = 0  # by which the server knows late requests of a lost connection
        self.until = math.inf  # when the watch cancels the lanes
        self.silence = SILENT_SECONDS  # longest, from one sign of life to the next
        self._sent, self._heard = 0.0, math.inf
        self._problem = ""  # for which the watch has cancelled the lanes
        _watch(self)

    @property
    def is_open(self) -> bool:
        """Whether `hello` has gone well, and nothing has failed since."""
        return self._client is not None

    def begin(self, until: float) -> None:
        """Begin a call that ends by `until`, in one attempt or more."""
        self.until, self.silence = until, SILENT_SECONDS

    def last_moment(self, until: float) -> float:
        """Return when an action that takes no time counts as lost."""
        return min(until, time.monotonic() + SILENT_SECONDS)

    def hello(self, until: float) -> Record:
        """Connect, and return what the server says of itself.

        Raises
        ------
        ConnectionLost, DeadlineExceeded
        BitlaneError
            Wrong token, another version, or a certificate that does not fit.
        """
        identity = self._identity
        scheme = "grpc" if identity.certificates is None else "grpc+tls"
        options: Record = {"generic_options": _GRPC}
        if identity.certificates is not None:
            options["tls_root_certs"] = identity.certificates.encode()
        with self._errors():
            self._client = flight.FlightClient(f"{scheme}://{self.address}", **options)
        last = self.last_moment(until)
        self._greetings += 1
        request = {
            "protocol": wire.PROTOCOL,
            "worker": identity.worker,
            "client": self._client_name,
            "updates": self._updates,
            "generation": identity.generation,
        }
        try:
            answer = self.action("hello", request, last)
        except DeadlineExceeded as error:
            if time.monotonic() >= until:
                raise
            raise ConnectionLost(f"server {self.address}: no answer in {SILENT_SECONDS:g} s") from error
        if answer["protocol"] != wire.PROTOCOL:
            self.close()
            raise BitlaneError(
                f"server {self.address} speaks protocol {answer['protocol']}, this bitlane {wire.PROTOCOL}: "
                "install the same version of bitlane"
            )
        return answer

    def action(self, name: str, request: Record, until: float) -> Record:
        """Call an action of the server; errors as `hello`."""
        with self._errors():
            left = max(until - time.monotonic(), 0.001)
            options = flight.FlightCallOptions(timeout=left, headers=token_headers(self._identity.token))
            answers = list(self._client.do_action(flight.Action(name, wire.to_bytes(request)), options))
        return self._checked(wire.from_bytes(answers[0].body))

    def send(self, lane: str, batch: Any, request: Record) -> None:
        """Send a request; see `receive`.

        Raises
        ------
        ConnectionLost, DeadlineExceeded
        """
        with self._errors():
            self._number += 1
            data = wire.to_bytes({"id": self._number, **request})
            writer, _ = self._lanes.get(lane) or self._open_lane(lane, batch)
            if batch is None:
                writer.write_metadata(data)
            else:
                writer.write_with_metadata(batch, data)
            self._sent = time.monotonic()

    def receive(self, lane: str) -> tuple[Any, Record]:
        """Return the answer to the request that was sent last: a batch or None, and the record beside it.

        It may take as long as it needs, as long as signs of life come. After a silence the next one may be twice as
        long: the answer may be large, and the network slow.

        Raises
        ------
        ConnectionLost, DeadlineExceeded
        BitlaneError
            What the server raised, of a class in `wire.ERRORS`.
        """
        with self._errors():
            # Signs of life that came while another server was waited for are read at once.
            self._heard = max(self._sent, time.monotonic() - self.silence + 2 * heartbeats.BEAT_SECONDS)
            while True:
                chunk = self._lanes[lane][1].read_chunk()
                answer = wire.from_bytes(chunk.app_metadata)
                if answer.get("id") != self._number:
                    raise ConnectionLost(f"server {self.address} answered another request")
                if heartbeats.RUNNING not in answer:
                    break
                self._heard = time.monotonic()
        return chunk.data, self._checked(answer)

    def close(self) -> None:
        """Drop the connection; `hello` makes a new one."""
        lanes, self._lanes = self._lanes, {}
        client, self._client = self._client, None
        for writer, reader in lanes.values():
            with contextlib.suppress(Exception):
                reader.cancel()
            with contextlib.suppress(Exception):  # else Arrow complains on the standard error
                writer.close()
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()

    def cancel_expired(self, now: float) -> None:
        """Cancel the lanes if the time is over, or the server is silent for too long; called by the watch."""
        problem = ""
        if now > self.until:
            problem = _LATE
        elif now > self._heard + self.silence:
            problem = f"no sign of life for {self.silence:g} s"
        if problem:
            self._problem = problem
            for _, reader in list(self._lanes.values()):
                with contextlib.suppress(Exception):
                    reader.cancel()

    @property
    def _client_name(self) -> str:
        return f"{self._identity.client}/{self._greetings}"

    def _open_lane(self, lane: str, batch: Any) -> tuple[Any, Any]:
        opening = {
            "protocol": wire.PROTOCOL,
            "lane": lane,
            "worker": self._identity.worker,
            "client": self._client_name,
        }
        descriptor = flight.FlightDescriptor.for_command(wire.to_bytes(opening))
        options = flight.FlightCallOptions(headers=token_headers(self._identity.token))
        writer, reader = self._client.do_exchange(descriptor, options)
        self._lanes[lane] = writer, reader
        writer.begin(wire.BYTE_SCHEMA if batch is None else batch.schema)
        return writer, reader

    def _checked(self, answer: Record) -> Record:
        if "error" in answer:
            kind = wire.ERRORS.get(answer["error"], BitlaneError)
            if kind is wire.ServerRestarted:
                self.close()
            raise kind(f"server {self.address}: {answer['message']}")
        return answer

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of Flight into ours, and drop the connection then."""
        try:
            self._problem = ""
            yield
        except flight.FlightUnauthenticatedError as error:
            self.close()
            raise BitlaneError(f"server {self.address}: {wire.short(error)}") from error
        except flight.FlightTimedOutError as error:
            self.close()
            raise DeadlineExceeded(f"server {self.address} {_LATE}") from error
        except (wire.pyarrow.ArrowException, OSError, StopIteration, KeyError, DataError) as error:
            problem = self._problem
            self.close()
            if problem == _LATE:
                raise DeadlineExceeded(f"server {self.address} {_LATE}") from error
            if problem:
                self.silence *= 2
                raise ConnectionLost(f"server {self.address}: {problem}") from error
            if any(each in str(error).lower() for each in _CERTIFICATE):
                raise BitlaneError(f"server {self.address}: its certificate is refused: {_refusal(error)}") from error
            refused = isinstance(error, flight.FlightUnavailableError) and "refused" in str(error).lower()
            reason = "connection refused" if refused else f"connection lost ({wire.short(error) or 'closed'})"
            raise ConnectionLost(f"server {self.address}: {reason}") from error
        except BaseException:
            self.close()
            raise
        finally:
            self._heard = math.inf


def _refusal(error: BaseException) -> str:
    """Return why a certificate is refused, without the names of libraries."""
    reason = wire.short(error).rpartition("certificate verify failed: ")[2]
    address, _, rest = reason.rpartition("Peer name ")[2].partition(" is not in peer certificate")
    return reason if rest or address == reason else f"it is not for {address}; its names must have the node's address"


_watched: weakref.WeakSet[Connection] = weakref.WeakSet()
_watching = threading.Lock()
_thread: threading.Thread | None = None


def _watch(connection: Connection) -> None:
    """Let the watch cancel the expired requests of a connection, as long as it exists."""
    global _thread
    with _watching:
        _watched.add(connection)
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_cancel_expired, name="bitlane-deadlines", daemon=True)
            _thread.start()


def _cancel_expired() -> None:
    while True:
        time.sleep(_WATCH_SECONDS)
        now = time.monotonic()
        with _watching:
            connections = list(_watched)
        for connection in connections:
            connection.cancel_expired(now)
        del connections
