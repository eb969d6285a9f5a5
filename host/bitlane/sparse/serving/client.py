"""A caller's connection to a scoring service over Arrow Flight."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import math
import time
import uuid
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.connection import Connection, ConnectionLost, DeadlineExceeded, Identity
from bitlane.sparse.servers.failures import ServerClosing
from bitlane.sparse.serving import messages
from bitlane.sparse.serving.requests import Fields, Floats, Keys, Offsets
from bitlane.sparse.serving.served_model import Answer

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1  # seconds between attempts


class ScoringClient:
    """Asks a scoring service for predictions. One thread at a time may use it.

    A lost connection is made again, and the request sent again, until the deadline. `ServerBusy` is raised at once:
    the caller knows best whether to wait.

    Parameters
    ----------
    address : str
        ``host:port``.
    token : str, optional
    certificates : str, optional
        Of the authorities that signed the server's certificate, PEM. With them, the connection is by TLS.
    deadline : float, default=1.0
        Seconds that a request may take, attempts included. It is noticed up to 0.05 s late.
    connect : float, default=10.0
        Seconds that the first connection may take.

    Attributes
    ----------
    model : str
        Name of the model that is served.
    version : int
        That answered last; at first, that was served when the connection was made.
    uses_fields : bool
        Whether the model uses fields. `score_batch` leaves them out otherwise.

    Raises
    ------
    BitlaneError
        The server cannot be reached, wants another token, or has another version of bitlane.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        certificates: str | None = None,
        deadline: float = 1.0,
        connect: float = 10.0,
    ):
        self.deadline = deadline
        name = uuid.uuid4().hex
        self._connection = Connection(address, Identity(name, name, token, certificates), updates=False)
        self._greet(time.monotonic() + connect)

    def score(
        self,
        keys: Keys,
        offsets: Offsets,
        *,
        fields: Fields | None = None,
        values: Floats | None = None,
        shared: bool = False,
        deadline: float | None = None,
    ) -> Answer:
        """Return the predictions of rows of features.

        Parameters
        ----------
        keys : uint64 [nnz]
        offsets : int64 [rows + 1]
            Row r has the features ``offsets[r]`` to ``offsets[r + 1] - 1``.
        fields : uint16 [nnz], optional
            Default: 0.
        values : float32 [nnz], optional
            Default: 1.
        shared : bool, default=False
            The first row's features belong to each other row, before its own; the first row gets no prediction.
        deadline : float, optional
            Default: that of the client.

        Returns
        -------
        Answer

        Raises
        ------
        DataError
            The arrays have other types or do not fit, or the server refuses the request.
        ServerBusy
            Too many requests wait.
        DeadlineExceeded
            No answer in time.
        BitlaneError
            Another error of the server.
        """
        _check(keys, offsets, fields, values)
        batch = messages.request_batch(keys, offsets, fields, values)
        lane, request = messages.lane_of(fields, values), {"shared": True} if shared else {}
        seconds = self.deadline if deadline is None else deadline
        until, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            try:
                return self._attempt(lane, batch, request, until)
            except (ConnectionLost, ServerClosing) as error:
                self._connection.close()
                if time.monotonic() + pause > until:
                    raise DeadlineExceeded(f"{error}; gave up after {seconds:g} s") from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def score_batch(self, batch: Batch, *, deadline: float | None = None) -> Answer:
        """Return the predictions of a batch, as `score`; arrays that change nothing are not sent."""
        values = None if (batch.values == 1).all() else batch.values
        if not self.uses_fields:
            try:
                return self.score(batch.keys, batch.offsets, values=values, deadline=deadline)
            except DataError:
                self._greet(time.monotonic() + (self.deadline if deadline is None else deadline))
                if not self.uses_fields:  # else another version has come, which uses them
                    raise
        return self.score(batch.keys, batch.offsets, fields=batch.fields, values=values, deadline=deadline)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> ScoringClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _greet(self, until: float) -> None:
        self._connection.close()
        greeting = self._connection.hello(until)
        self.model, self.version = str(greeting["model"]), int(greeting["version"])
        self.uses_fields = bool(greeting["uses_fields"])

    def _attempt(self, lane: str, batch: pa.RecordBatch, request: dict[str, Any], until: float) -> Answer:
        connection = self._connection
        if not connection.is_open:
            self._greet(until)
        connection.until = until
        try:
            connection.send(lane, batch, request)
            data, answer = connection.receive(lane)
        except BitlaneError:
            raise
        except BaseException:  # an answer may be on its way
            connection.close()
            raise
        finally:
            connection.until = math.inf
        self.version = int(answer["version"])
        missing = tuple(answer.get("missing", ()))
        return Answer(wire.array_of(data, 0, np.float32), self.version, float(answer["seconds"]), missing)


def _check(keys: Keys, offsets: Offsets, fields: Fields | None, values: Floats | None) -> None:
    arrays: dict[str, tuple[Any, Any]] = {
        "keys": (keys, np.uint64),
        "offsets": (offsets, np.int64),
        "fields": (fields, np.uint16),
        "values": (values, np.float32),
    }
    for name, (array, dtype) in arrays.items():
        if array is None:
            continue
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            raise DataError(f"{name} must be a {np.dtype(dtype)} array of one dimension")
        if name in ("fields", "values") and len(array) != len(keys):
            raise DataError(f"{len(keys)} keys need as many {name}; got {len(array)}")
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(keys):
        raise DataError(f"offsets must begin with 0 and end with the number of keys, {len(keys)}")
