"""Requests for predictions over Arrow Flight; see `messages`."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.lanes import LaneService
from bitlane.sparse.serving import messages
from bitlane.sparse.serving.served_model import ServedModel, ServedVersion
from bitlane.sparse.serving.sharing import spread_shared

if TYPE_CHECKING:
    import pyarrow as pa

Record = dict[str, Any]


class ScoringService(LaneService):
    """A server of Arrow Flight for one model. It answers from the moment it is made; errors as of `LaneService`.

    Parameters
    ----------
    served : ServedModel
    host : str, default="127.0.0.1"
    port : int, default=0
        0: any free one; `port` is the one chosen.
    token : str, optional
        What clients must know.
    tls : tuple of str, optional
        Certificate and key, PEM.
    """

    def __init__(
        self,
        served: ServedModel,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str | None = None,
        tls: tuple[str, str] | None = None,
    ):
        self._served = served
        super().__init__(host, port, messages.LANES, ("hello",), token=token, tls=tls)

    def _answer_schema(self, lane: str) -> Any:
        return messages.ANSWER

    def _answer(self, lane: str, batch: pa.RecordBatch, request: Record, opening: Record) -> tuple[Any, Record]:
        begin, served = time.perf_counter(), self._served

        def read(version: ServedVersion) -> Batch:
            rows = messages.batch_of_request(batch, lane, served.bounds)
            version.check_fields("field" in lane, rows.nnz)
            return spread_shared(rows, served.bounds) if request.get("shared") else rows

        try:
            with served.limit.admitted():
                self._check_open()
                answer = served.answer("flight", read, begin)
        except Exception as error:
            served.count_error("flight", error)
            raise
        record: Record = {"version": answer.version, "seconds": answer.seconds}
        if answer.missing:
            record["missing"] = list(answer.missing)
        return messages.prediction_batch(answer.predictions), record

    def _hello(self, request: Record) -> Record:
        if request.get("protocol") != wire.PROTOCOL:
            return {"protocol": wire.PROTOCOL}
        version = self._served.version
        return {
            "protocol": wire.PROTOCOL,
            "model": self._served.name,
            "version": version.number,
            "uses_fields": version.uses_fields,
        }
