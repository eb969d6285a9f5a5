"""A shard behind Arrow Flight."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.key_codec import decode_keys
from bitlane.sparse.servers.row_codecs import encode_rows
from bitlane.sparse.servers.security import TokenCheck, check_exposure
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.traffic import Traffic
from bitlane.sparse.servers.updates import join_dense
from bitlane.sparse.servers.wire import ServerBusy, ServerClosing, flight

_PATIENCE = 0.5  # seconds that a read waits for other workers before it is sent again

Record = dict[str, Any]


class RequestLimit:
    """Counts the requests that run or wait, and refuses more than `limit`."""

    def __init__(self, limit: int):
        if limit < 1:
            raise DataError(f"limit must be at least 1; got {limit}")
        self._limit, self._count, self._lock = limit, 0, threading.Lock()

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


class ShardService(flight.FlightServerBase):
    """A server of Arrow Flight for one shard. It answers from the moment it is made.

    Parameters
    ----------
    shard : Shard
    host : str, default="127.0.0.1"
    port : int, default=0
        0: any free one; `port` tells which.
    token : str, optional
        What clients must know.
    tls : tuple of str, optional
        Certificate and key, PEM.
    limit : int, default=64
        Requests that run or wait; more get an error at once.
    on_stop : callable, optional
        Called when a client asks the server to end.

    Raises
    ------
    DataError
        A host that other machines reach, without token or TLS.
    BitlaneError
        The port is taken, or there is no such host.
    """

    def __init__(
        self,
        shard: Shard,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        tls: tuple[str, str] | None = None,
        limit: int = 64,
        on_stop: Callable[[], None] | None = None,
    ):
        check_exposure(host, token, tls)
        # Requests may come as soon as the base class is made.
        self._shard, self._limit, self._on_stop = shard, RequestLimit(limit), on_stop
        self._traffic = Traffic(wire.LANES)
        self._clients: dict[str, str] = {}  # the connection that may update, of each worker
        self._turns: dict[str, threading.Lock] = {}  # of each worker: one update or one new connection at a time
        self._closing = False
        _check_port(host, port)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        options: dict[str, Any] = {} if token is None else {"middleware": {"token": TokenCheck(token)}}
        if tls is not None:
            options["tls_certificates"] = [tuple(each.encode() for each in tls)]
        try:
            super().__init__(f"{'grpc' if tls is None else 'grpc+tls'}://{place}", **options)
        except (wire.pyarrow.ArrowException, OSError) as error:
            raise BitlaneError(f"the server cannot listen on {place}: {wire.short(error)}") from error

    def refuse(self) -> None:
        """Answer all requests from now on with an error that lets clients try again elsewhere or later."""
        self._closing = True

    # --- calls
    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Answer the requests of one lane until the client closes it."""
        opening = wire.from_bytes(descriptor.command)
        lane, values = opening["lane"], self._shard.parameters.layout.values
        if opening.get("protocol") != wire.PROTOCOL or lane not in wire.LANES:
            raise flight.FlightServerError(f"this server speaks protocol {wire.PROTOCOL}")
        writer.begin(wire.answer_schema(lane, values))
        answer_of = getattr(self, f"_{lane}")
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            request = wire.from_bytes(chunk.app_metadata)
            try:
                if lane == "read":  # whoever waits for other workers does not count as a request that waits
                    self._shard.wait_for(request["clock"], _PATIENCE)
                with self._limit.admitted(), self._turn("sequence" in request, opening["worker"]):
                    self._check_open(request, opening)
                    if chunk.data is not None and not chunk.data.schema.equals(wire.request_schema(lane, values)):
                        found = ", ".join(f"{each.name}: {each.type}" for each in chunk.data.schema)
                        raise DataError(f"this server has {values} weights a row; the request has {found}")
                    batch, answer = answer_of(chunk.data, request, opening["worker"])
            except Exception as error:  # the lane stays open
                batch, answer = None, wire.error_record(error)
            data = wire.to_bytes({"id": request.get("id"), **answer})
            self._traffic.add(lane, _size_of(chunk.data, chunk.app_metadata), _size_of(batch, data))
            if batch is None:
                writer.write_metadata(data)
            else:
                writer.write_with_metadata(batch, data)

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """Answer ``hello``, ``status``, ``checkpoint`` or ``stop``; requests and answers are JSON."""
        try:
            request = wire.from_bytes(action.body)
            if action.type not in ("hello", "status", "checkpoint", "stop"):
                raise DataError(f"unknown action {action.type!r}")
            if self._closing:
                raise ServerClosing("the server is about to end")
            return [wire.to_bytes(getattr(self, f"_{action.type}")(request))]
        except Exception as error:
            return [wire.to_bytes(wire.error_record(error))]

    # --- lanes
    def _pull(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        keys = wire.array_of(batch, 0, np.uint64)
        answer = {}
        if "sequence" in request:
            answer["last"] = self._shard.create_rows(worker, request["sequence"], keys)
        return wire.row_batch(self._shard.pull(keys)), answer

    def _push(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        keys, gradients = wire.array_of(batch, 0, np.uint64), wire.array_of(batch, 1, np.float32)
        return None, {"last": self._shard.push(worker, request["sequence"], keys, gradients, request["rows_seen"])}

    def _dense(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        if "clock" in request:
            return None, {"last": self._shard.tick(worker, request["sequence"], request["clock"])}
        if "begin" in request:
            return None, {"last": self._shard.begin(worker, request["sequence"], **request["begin"])}
        if "sequence" not in request:
            return wire.dense_batch(self._shard.pull_dense()), {}
        gradients = join_dense({}) if batch is None else wire.array_of(batch, 0, np.float32)
        return None, {"last": self._shard.push_dense(worker, request["sequence"], gradients, request["rows_seen"])}

    def _read(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        keys = decode_keys(wire.array_of(batch, 0, np.uint8), request["keys"])
        found = self._shard.read(keys, worker, request["clock"], whole=request["whole"])
        rows = encode_rows(found.rows, request["codec"], seed=request["clock"])
        data = np.concatenate([rows, found.dense.view(np.uint8)])
        return wire.byte_batch(data), {"clock": found.clock, "own": found.own, "dense": len(found.dense)}

    def _step(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        return None, {"last": self._shard.step(worker, request["sequence"], wire.array_of(batch, 0, np.uint8).copy())}

    # --- actions
    def _hello(self, request: Record) -> Record:
        worker = str(request.get("worker"))
        if request.get("protocol") != wire.PROTOCOL:
            return {"protocol": wire.PROTOCOL}
        with self._turn(bool(request.get("updates")), worker):
            if request.get("updates"):
                self._clients[worker] = request["client"]
            last, clock, place = self._shard.standing(worker)
        spec = self._shard.spec.to_json()
        return {"protocol": wire.PROTOCOL, "spec": spec, "last": last, "clock": clock, "place": place}

    def _status(self, request: Record) -> Record:
        return {**self._shard.status(), "traffic": self._traffic.state()}

    def _checkpoint(self, request: Record) -> Record:
        return {"path": str(self._shard.checkpoint())}

    def _stop(self, request: Record) -> Record:
        if self._on_stop is None:
            raise BitlaneError("this server does not end by request")
        self._on_stop()
        return {}

    @contextlib.contextmanager
    def _turn(self, updates: bool, worker: str) -> Iterator[None]:
        """A section for an update of a worker, in which no other connection takes over its name; others need none."""
        if not updates:
            yield
            return
        with self._turns.setdefault(worker, threading.Lock()):
            yield

    def _check_open(self, request: Record, opening: Record) -> None:
        if self._closing:
            raise ServerClosing("the server is about to end")
        if "sequence" in request and self._clients.get(opening["worker"]) != opening["client"]:
            raise DataError(f"another client has the name of worker {opening['worker']!r}: names must differ")


def _size_of(batch: Any, record: Any) -> int:
    """Return the bytes of a message: of its batch, which may be None, and of the record beside it."""
    return len(record) + (0 if batch is None else int(batch.nbytes))


def _check_port(host: str, port: int) -> None:
    """Raise BitlaneError if the server cannot listen on `host` and `port`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BitlaneError(f"the server cannot listen on {host}:{port}: {str(reason).lower()}") from error
