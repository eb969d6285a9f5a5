"""A weight server: one shard of a model behind Arrow Flight."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from bitlane.errors import DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.lanes import LaneService, RequestLimit
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.wire import RequestExpired
from bitlane.sparse.serving.shards.messages import ANSWER, LANE, answer_batch, keys_of_request
from bitlane.sparse.serving.shards.versions import HeldVersions
from bitlane.support.processors import processors

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST = 3600.0  # seconds that a request may ask for

Record = dict[str, Any]


class WeightService(LaneService):
    """Answers lookups of one shard, each by the version that it asks for.

    Parameters
    ----------
    versions : HeldVersions
    shard : int
    partition : Partition
        How keys are spread over the shards.
    host : str, default="127.0.0.1"
    port : int, default=0
        0: any free one; `port` is the one chosen.
    token, tls
        As of `LaneService`.
    limit : int, default=64
        Requests that run or wait; more get an error at once.

    Raises
    ------
    DataError, BitlaneError
        As of `LaneService`.
    """

    def __init__(
        self,
        versions: HeldVersions,
        shard: int,
        partition: Partition,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        tls: tuple[str, str] | None = None,
        limit: int = 64,
    ):
        # Requests may come as soon as the base class is made.
        self._versions, self._limit = versions, RequestLimit(limit)
        self._identity = {"shard": shard, "shards": partition.servers, "virtual_shards": partition.virtual_shards}
        self._running = threading.BoundedSemaphore(processors())
        super().__init__(host, port, (LANE,), ("hello", "status", "load"), token=token, tls=tls)

    # --- lanes
    def _answer_schema(self, lane: str) -> Any:
        return ANSWER

    def _answer(self, lane: str, batch: pa.RecordBatch, request: Record, opening: Record) -> tuple[Any, Record]:
        until = time.monotonic() + min(_number(request, "seconds"), _LONGEST)
        version = int(_number(request, "version"))
        with self._limit.admitted():
            self._check_open()
            table, keys = self._versions.table(version), keys_of_request(batch)
            if not self._running.acquire(timeout=max(until - time.monotonic(), 0)):
                raise RequestExpired("the deadline of the request has passed")
            try:
                if time.monotonic() >= until:
                    raise RequestExpired("the deadline of the request has passed")
                weights, known = table.lookup(keys)
            finally:
                self._running.release()
        return answer_batch(weights, known), {}

    # --- actions
    def _hello(self, request: Record) -> Record:
        if request.get("protocol") != wire.PROTOCOL:
            return {"protocol": wire.PROTOCOL}
        return {"protocol": wire.PROTOCOL, **self._status({})}

    def _status(self, request: Record) -> Record:
        self._versions.touch(request.get("using", ()))
        return {
            **self._identity,
            **self._versions.state(),
            "pid": os.getpid(),
            "waiting": self._limit.count,
            "traffic": self._traffic.state(),
        }

    def _load(self, request: Record) -> Record:
        self._versions.load(int(_number(request, "version")))
        return self._status(request)


def _number(request: Record, name: str) -> float:
    number = request.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or number != number:
        raise DataError(f"{name} must be a number; got {number!r}")
    return number
