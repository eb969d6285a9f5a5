"""A shard behind Arrow Flight."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.key_codec import decode_keys
from bitlane.sparse.servers.lanes import LaneService, RequestLimit
from bitlane.sparse.servers.publishing import ShardPublisher
from bitlane.sparse.servers.reads import CountsWanted
from bitlane.sparse.servers.row_codecs import encode_rows
from bitlane.sparse.servers.shard import ParameterShard

_READ_TIMEOUT = 0.5  # seconds that a read waits for other workers before it is sent again

Record = dict[str, Any]


class ShardService(LaneService):
    """A server of Arrow Flight for one shard. It answers from the moment it is made.

    Parameters
    ----------
    shard : ParameterShard
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
        shard: ParameterShard,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        tls: tuple[str, str] | None = None,
        limit: int = 64,
        on_stop: Callable[[], None] | None = None,
    ):
        # Requests may come as soon as the base class is made.
        self._shard, self._limit, self._on_stop = shard, RequestLimit(limit), on_stop
        self._clients: dict[str, str] = {}  # the connection that may update, of each worker
        self._generations: dict[str, int] = {}  # the last one of each worker
        self._turns: dict[str, threading.Lock] = {}  # of each worker: one update or one new connection at a time
        self._publisher = ShardPublisher(shard)
        actions = ("hello", "status", "checkpoint", "publish", "stop")
        super().__init__(host, port, wire.LANES, actions, token=token, tls=tls)

    # --- lanes
    def _answer_schema(self, lane: str) -> Any:
        return wire.BYTE_SCHEMA

    def _answer(self, lane: str, batch: Any, request: Record, opening: Record) -> tuple[Any, Record]:
        if lane == "read":  # a read that waits for other workers does not count against the limit
            self._shard.wait_for(request["clock"], _READ_TIMEOUT)
        with self._limit.admitted(), self._turn("sequence" in request, opening["worker"]):
            self._check_open()
            if "sequence" in request:
                self._check_client(opening["worker"], opening["client"])
            if batch is not None and not batch.schema.equals(wire.BYTE_SCHEMA):
                columns = ", ".join(f"{each.name}: {each.type}" for each in batch.schema)
                raise DataError(f"a request has the column byte: uint8; got {columns}")
            answer: tuple[Any, Record] = getattr(self, f"_{lane}")(batch, request, opening["worker"])
            return answer

    def _check_client(self, worker: str, client: str) -> None:
        if worker not in self._clients:
            raise wire.ServerRestarted(f"the server has restarted since the hello of worker {worker!r}")
        if self._clients[worker] != client:
            raise DataError(f"another client is named worker {worker!r}: names must differ")

    def _check_generation(self, worker: str, generation: int) -> None:
        """Refuse a process that was given up, and has come back while another one does its work."""
        if generation < self._generations.get(worker, 0):
            raise DataError(f"another process has taken the place of worker {worker!r}")
        self._generations[worker] = generation

    def _begin(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        return None, {"last": self._shard.begin(worker, request["sequence"], **request["begin"])}

    def _read(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        data, size, wanted = wire.array_of(batch, 0, np.uint8), request.get("key_bytes"), None
        keys = decode_keys(data[:size], request["keys"])
        if size is not None:
            wanted = CountsWanted(decode_keys(data[size:], request["words"]), request["epoch"])
        read = self._shard.read(keys, worker, request["clock"], with_state=request["with_state"], wanted=wanted)
        rows = encode_rows(read.rows, request["codec"], seed=request["clock"])
        data = np.concatenate([rows, read.dense.view(np.uint8)])
        reply: Record = {"clock": read.clock, "own": read.own, "dense": len(read.dense)}
        if read.counts is not None:
            data, reply["totals"] = np.concatenate([data, read.counts.view(np.uint8).ravel()]), read.totals
        return wire.byte_batch(data), reply

    def _step(self, batch: Any, request: Record, worker: str) -> tuple[Any, Record]:
        return None, {"last": self._shard.step(worker, request["sequence"], wire.array_of(batch, 0, np.uint8).copy())}

    # --- actions
    def _hello(self, request: Record) -> Record:
        worker = str(request.get("worker"))
        if request.get("protocol") != wire.PROTOCOL:
            return {"protocol": wire.PROTOCOL}
        with self._turn(bool(request.get("updates")), worker):
            if request.get("updates"):
                self._check_generation(worker, int(request.get("generation", 0)))
                self._clients[worker] = request["client"]
            last, clock, offset = self._shard.standing(worker)
        spec = self._shard.spec.to_json()
        return {"protocol": wire.PROTOCOL, "spec": spec, "last": last, "clock": clock, "offset": offset}

    def _status(self, request: Record) -> Record:
        return {**self._shard.status(), "traffic": self._traffic.state()}

    def _checkpoint(self, request: Record) -> Record:
        return {"path": str(self._shard.checkpoint())}

    def _publish(self, request: Record) -> Record:
        return self._publisher.publish(request)

    def _stop(self, request: Record) -> Record:
        if self._on_stop is None:
            raise BitlaneError("this server cannot be stopped by a request")
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
