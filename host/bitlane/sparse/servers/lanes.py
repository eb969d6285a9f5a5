"""A server of Arrow Flight with lanes, actions, a token and TLS: what all services have in common."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.failures import ServerClosing
from bitlane.sparse.servers.heartbeats import Heartbeats
from bitlane.sparse.servers.newcomers import Newcomers
from bitlane.sparse.servers.security import TokenCheck, check_exposure
from bitlane.sparse.servers.wire import ServerBusy, flight

Record = dict[str, Any]


class PortTaken(BitlaneError):
    """Another program listens on the port."""


class RequestLimit:
    """Counts the requests that run or wait, and refuses more than `limit`."""

    def __init__(self, limit: int):
        if limit < 1:
            raise DataError(f"limit must be at least 1; got {limit}")
        self._limit, self._count, self._lock = limit, 0, threading.Lock()

    @property
    def count(self) -> int:
        """Requests that run or wait now."""
        return self._count

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """A section for one request.

        Raises
        ------
        ServerBusy
        """
        with self._lock:
            if self._count >= self._limit:
                raise ServerBusy(f"busy: {self._count} requests wait")
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1


class LaneTraffic:
    """Requests and bytes since the server has started, without what the transport adds. For several threads.

    Parameters
    ----------
    lanes : iterable of str
    """

    def __init__(self, lanes: Iterable[str]):
        self._lock = threading.Lock()
        self._counts = {lane: {"requests": 0, "received": 0, "sent": 0} for lane in lanes}

    def add(self, lane: str, received: int, sent: int) -> None:
        """Count a request of a lane and its answer, in bytes."""
        counts = self._counts[lane]
        with self._lock:
            counts["requests"] += 1
            counts["received"] += received
            counts["sent"] += sent

    def state(self) -> dict[str, Any]:
        """Return requests, and bytes received and sent, by lane."""
        with self._lock:
            return {lane: dict(counts) for lane, counts in self._counts.items()}


class LaneService(flight.FlightServerBase):
    """A server of Arrow Flight. It answers from the moment it is made.

    A subclass sets what its methods need before it calls this constructor.

    Parameters
    ----------
    host : str
    port : int
        0: any free one; `port` tells which.
    lanes : sequence of str
    actions : sequence of str
        Each is a method of this name with an underscore before it, from a request to an answer.
    token : str, optional
        What clients must know.
    tls : tuple of str, optional
        Certificate and key, PEM.

    Raises
    ------
    DataError
        A host that other machines reach, without token or TLS.
    BitlaneError
        The port is taken, or there is no such host.
    """

    def __init__(
        self,
        host: str,
        port: int,
        lanes: Sequence[str],
        actions: Sequence[str],
        *,
        token: str | None = None,
        tls: tuple[str, str] | None = None,
    ):
        check_exposure(host, token, tls)
        # Requests may come as soon as the base class is made.
        self._traffic, self._actions, self._closing = LaneTraffic(lanes), tuple(actions), False
        self._newcomers = Newcomers()
        self._heartbeats = Heartbeats()
        self._lanes = frozenset(lanes)
        check_port(host, port)
        address = address_of(host, port)
        options: dict[str, Any] = {} if token is None else {"middleware": {"token": TokenCheck(token)}}
        if tls is not None:
            options["tls_certificates"] = [tuple(each.encode() for each in tls)]
        try:
            super().__init__(f"{'grpc' if tls is None else 'grpc+tls'}://{address}", **options)
        except (wire.pyarrow.ArrowException, OSError) as error:
            raise BitlaneError(f"the server cannot listen on {address}: {wire.short(error)}") from error
        self._newcomers.watch(self.port)

    def refuse(self) -> None:
        """Answer all requests from now on with an error that lets clients try again elsewhere or later."""
        self._closing = True

    def shutdown(self) -> None:
        """Stop, once no call runs any more."""
        self._newcomers.close()
        self._heartbeats.close()
        super().shutdown()

    # --- calls, which come after the token was checked
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Answer the requests of one lane until the client closes it."""
        self._newcomers.admit_peer(context.peer())
        opening = wire.from_bytes(descriptor.command)
        lane = opening["lane"]
        if opening.get("protocol") != wire.PROTOCOL or lane not in self._lanes:
            raise flight.FlightServerError(f"this server speaks protocol {wire.PROTOCOL}")
        writer.begin(self._answer_schema(lane))
        heart = self._heartbeats.of(writer)
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            request = wire.from_bytes(chunk.app_metadata)
            with heart.beating(request.get("id")):
                try:
                    batch, answer = self._answer(lane, chunk.data, request, opening)
                except Exception as error:  # the lane stays open
                    batch, answer = None, wire.error_record(error)
            data = wire.to_bytes({"id": request.get("id"), **answer})
            self._traffic.add(lane, _size_of(chunk.data, chunk.app_metadata), _size_of(batch, data))
            if batch is None:
                writer.write_metadata(data)
            else:
                writer.write_with_metadata(batch, data)

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """Answer an action; requests and answers are JSON."""
        self._newcomers.admit_peer(context.peer())
        try:
            request = wire.from_bytes(action.body)
            if action.type not in self._actions:
                raise DataError(f"unknown action {action.type!r}")
            self._check_open()
            return [wire.to_bytes(getattr(self, f"_{action.type}")(request))]
        except Exception as error:
            return [wire.to_bytes(wire.error_record(error))]

    # --- for subclasses
    def _answer_schema(self, lane: str) -> Any:
        """Return the schema of a lane's answers."""
        raise NotImplementedError

    def _answer(self, lane: str, batch: Any, request: Record, opening: Record) -> tuple[Any, Record]:
        """Return a batch or None, and the record beside it. The client gets the message of an exception."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._closing:
            raise ServerClosing("the server is shutting down")


def address_of(host: str, port: int) -> str:
    """Return ``host:port``, as URIs have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def loopback() -> str:
    """Return the address at which only this machine reaches a server: of IPv4, or of IPv6 where there is no other.

    Raises
    ------
    BitlaneError
        There is neither.
    """
    try:
        check_port("127.0.0.1", 0)
        return "127.0.0.1"
    except BitlaneError:
        check_port("::1", 0)
        return "::1"


def check_port(host: str, port: int) -> None:
    """Raise BitlaneError if a server cannot listen on `host` and `port`."""
    listen(host, port).close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to `host` and `port`.

    Raises
    ------
    BitlaneError
        The port is taken, or there is no such host.
    """
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(target)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        problem = PortTaken if getattr(error, "errno", None) == errno.EADDRINUSE else BitlaneError
        raise problem(f"the server cannot listen on {address_of(host, port)}: {str(reason).lower()}") from error
    return listener


def _size_of(batch: Any, record: Any) -> int:
    """Return the bytes of a message: of its batch, which may be None, and of the record beside it."""
    return len(record) + (0 if batch is None else int(batch.nbytes))
