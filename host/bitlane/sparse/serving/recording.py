"""A record of requests and their answers, to be replayed against another version."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers.wire import flat_array, items_of, pyarrow
from bitlane.sparse.serving.requests import Floats
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    import pyarrow as pa

ipc = require_extra("pyarrow.ipc", "a record of requests", "'bitlane[sparse]'")

WAITING = 64  # requests that wait for the disk; more are left out
_number = {"keys": pyarrow.uint64(), "fields": pyarrow.uint16(), "values": pyarrow.float32()}


def _list(name: str) -> object:
    return pyarrow.field(name, pyarrow.large_list(pyarrow.field("item", _number[name], nullable=False)), nullable=False)


SCHEMA = pyarrow.schema(
    [
        *(_list(name) for name in _number),
        pyarrow.field("prediction", pyarrow.float32(), nullable=False),
        pyarrow.field("version", pyarrow.int64(), nullable=False),
        pyarrow.field("time", pyarrow.timestamp("us", "UTC"), nullable=False),
    ]
)


class Recorder:
    """Writes a share of the requests to a file in Arrow's stream format, one record batch a request.

    The columns are ``keys``, ``fields``, ``values``, ``prediction``, ``version`` and ``time``. A thread writes; what
    comes faster than the disk takes it is left out and counted. A killed process leaves all requests but the last ones.

    Parameters
    ----------
    path : Path
        A new file, which only its user may read.
    share : float, default=0.01
        Of the requests, above 0 and up to 1.
    max_bytes : int, default=1 GiB
        No request begins behind this size.
    seed : int, optional
        Of the choice of requests.

    Attributes
    ----------
    path : Path
    recorded, left_out : int
        Requests that were written, and that were chosen but not written.
    problem : str or None
        Why nothing is written any more.

    Raises
    ------
    DataError
        The share is out of range, or the file is there.
    BitlaneError
        The file cannot be made.
    """

    def __init__(self, path: Path, share: float = 0.01, max_bytes: int = 1 << 30, seed: int | None = None):
        if not 0 < share <= 1:
            raise DataError(f"share of recorded requests must be above 0 and at most 1; got {share:g}")
        try:
            # Requests tell of people: only the user of this service reads them.
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
        except FileExistsError:
            raise DataError(f"{path} exists: use a new name for the record of requests") from None
        except OSError as error:
            raise BitlaneError(f"{path} cannot be written: {error.strerror or error}") from error
        self.path = path
        self._share = share
        self._max_bytes = max_bytes
        self._draw = random.Random(seed)
        self._queue: queue.Queue[tuple[Batch, Floats, int, int] | None] = queue.Queue(WAITING)
        self._writer = ipc.new_stream(self._file, SCHEMA)
        self.recorded = self.left_out = 0
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._write, name="bitlane-recorder", daemon=True)
        self._thread.start()

    def add(self, batch: Batch, predictions: Floats, version: int) -> None:
        """Record a request with its answer, or leave it out by chance."""
        if self._draw.random() >= self._share:
            return
        try:
            self._queue.put_nowait((batch, predictions, version, time.time_ns() // 1000))
        except queue.Full:
            self.left_out += 1

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._queue.put(None)
        self._thread.join()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self) -> None:
        while (entry := self._queue.get()) is not None:
            if self.problem is not None:
                self.left_out += 1
                continue
            try:
                self._writer.write_batch(_record(*entry))
                self._file.flush()
                self.recorded += 1
                if self._file.tell() > self._max_bytes:
                    self.problem = f"{self.path} has {self._max_bytes:,} bytes: nothing more is recorded"
            except (OSError, pyarrow.ArrowException) as error:
                self.problem = f"{self.path} cannot be written: {getattr(error, 'strerror', None) or error}"
        try:
            self._writer.close()
            self._file.close()
        except (OSError, pyarrow.ArrowException) as error:
            self.problem = f"{self.path} cannot be written: {getattr(error, 'strerror', None) or error}"


def read_record(path: Path) -> Iterator[tuple[Batch, Floats, int]]:
    """Yield the recorded requests: the rows, their predictions and the version that made them.

    A last request that was cut off is left out.

    Raises
    ------
    DataError
        The file is missing or not such a record.
    """
    try:
        with path.open("rb") as file, ipc.open_stream(file) as reader:
            if not reader.schema.equals(SCHEMA):
                raise DataError(f"{path} is not a record of requests")
            while True:
                try:
                    recorded = reader.read_next_batch()
                except (StopIteration, pyarrow.ArrowInvalid, OSError):
                    return
                yield _request_of(recorded)
    except (OSError, pyarrow.ArrowException) as error:
        reason = getattr(error, "strerror", None) or "it is not a record of requests"
        raise DataError(f"{path} cannot be read: {reason}") from error


def _record(batch: Batch, predictions: Floats, version: int, time_us: int) -> object:
    rows = batch.rows
    offsets = pyarrow.py_buffer(batch.offsets)
    columns = []
    for name, kind in _number.items():
        array = getattr(batch, name)
        columns.append(
            pyarrow.Array.from_buffers(
                SCHEMA.field(name).type, rows, [None, offsets], children=[flat_array(array, kind)]
            )
        )
    columns.append(flat_array(predictions, pyarrow.float32()))
    columns.append(flat_array(np.full(rows, version, np.int64), pyarrow.int64()))
    columns.append(flat_array(np.full(rows, time_us, np.int64), SCHEMA.field("time").type))
    return pyarrow.record_batch(columns, schema=SCHEMA)


def _request_of(record: pa.RecordBatch) -> tuple[Batch, Floats, int]:
    columns = [record.column(name) for name in SCHEMA.names]
    rows = len(columns[0])
    offsets = items_of(columns[0].buffers()[1], np.int64, 0, rows + 1)
    arrays = [
        items_of(column.values.buffers()[1], dtype, 0, len(column.values))
        for column, dtype in zip(columns, (np.uint64, np.uint16, np.float32), strict=False)
    ]
    keys, fields, values = arrays
    predictions = items_of(columns[3].buffers()[1], np.float32, 0, rows)
    version = int(columns[4][0].as_py()) if rows else 0
    return Batch(keys, fields, values, offsets, np.zeros(rows, np.float32)), predictions, version
