"""Messages between workers and servers: record batches of Arrow Flight, each with a short record in JSON beside it.

| lane | request | answer |
| --- | --- | --- |
| `begin` | none | none |
| `read` | `byte`: keys | `byte`: rows, then matrices |
| `step` | `byte`: a step of a worker | none |

A lane is one `DoExchange` that stays open for many requests. The record beside a request has the number of the request
and, for updates, the sequence; that of a read has the clock and the codec, that of `begin` what begins. The record
beside an answer has the number and the worker's last sequence, or an error. While a request runs for long, records with
its number and ``running`` come before the answer (`heartbeats`).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.failures import ServerClosing, reason_of
from bitlane.sparse.servers.reads import ReadTooEarly
from bitlane.support.optional import require_extra

PROTOCOL = 4
LANES = ("begin", "read", "step")

pyarrow = require_extra("pyarrow", "a parameter server", "'bitlane[sparse]'")
flight = require_extra("pyarrow.flight", "a parameter server", "'bitlane[sparse]'")

KEY_SCHEMA = pyarrow.schema([pyarrow.field("key", pyarrow.uint64(), nullable=False)])
BYTE_SCHEMA = pyarrow.schema([pyarrow.field("byte", pyarrow.uint8(), nullable=False)])

_encoder, _decoder = json.JSONEncoder(separators=(",", ":")), json.JSONDecoder()

Keys = NDArray[np.uint64]


class ServerBusy(BitlaneError):
    """Too many requests wait; the request may be sent again later."""


class ServerRestarted(BitlaneError):
    """The server has had no hello of this worker since it started; the client says it again."""


class VersionMissing(BitlaneError):
    """The server does not hold the version of the model; another one may."""


class RequestExpired(BitlaneError):
    """The deadline of the request was over before the server did it."""


# How an error of the server is named on the wire, and what the client raises.
ERRORS: dict[str, type[BitlaneError]] = {
    "busy": ServerBusy,
    "closing": ServerClosing,
    "restarted": ServerRestarted,
    "early": ReadTooEarly,
    "version": VersionMissing,
    "expired": RequestExpired,
    "data": DataError,
    "server": BitlaneError,
}


def error_name(error: BaseException) -> str:
    """Return the name of an error on the wire."""
    for name, kind in ERRORS.items():
        if isinstance(error, kind):
            return name
    return "server"


def error_record(error: BaseException) -> dict[str, Any]:
    """Return the record that reports an error to the client."""
    text = " ".join(str(error).split()) if isinstance(error, BitlaneError) else reason_of(error)
    return {"error": error_name(error), "message": text}


def key_batch(keys: Keys) -> Any:
    """Return a batch with keys [n]; it shares their memory."""
    return pyarrow.record_batch([flat_array(keys, pyarrow.uint64())], schema=KEY_SCHEMA)


def byte_batch(data: NDArray[np.uint8]) -> Any:
    """Return a batch with bytes [n]; it shares their memory."""
    return pyarrow.record_batch([flat_array(data, pyarrow.uint8())], schema=BYTE_SCHEMA)


def array_of(batch: Any, column: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return a column [n] without a copy where its memory is aligned.

    Numba compiles a loop again for arrays that cannot be written, so the array can be; nothing else uses its memory.
    """
    array = batch.column(column)
    return items_of(array.buffers()[1], dtype, array.offset, len(array))


def items_of(buffer: Any, dtype: DTypeLike, start: int, size: int) -> NDArray[Any]:
    """Return `size` items of a buffer from item `start` on, as `array_of` does."""
    item = np.dtype(dtype).itemsize
    if size == 0:
        return np.zeros(0, dtype)
    if (buffer.address + item * start) % item:
        array: NDArray[Any] = np.frombuffer(buffer, dtype, size, item * start).copy()
        return array
    memory: Any = (ctypes.c_char * (item * size)).from_address(buffer.address + item * start)
    memory.owner = buffer  # lives as long as the array
    array = np.frombuffer(memory, dtype)
    return array


def to_bytes(record: Mapping[str, Any]) -> bytes:
    """Return a record in JSON."""
    return _encoder.encode(record).encode()


def from_bytes(data: bytes | memoryview) -> dict[str, Any]:
    """Return the record of `to_bytes`.

    Raises
    ------
    DataError
        The data is not such a record.
    """
    try:
        return dict(_decoder.decode(str(data, "utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(f"not a message of bitlane: {error}") from error


def short(error: BaseException) -> str:
    """Return the first line of an error of Flight, without what its library adds."""
    text = str(error).split(" gRPC client debug context")[0].split(". Detail:")[0].rpartition("with message: ")[2]
    return " ".join(text.split("\n")[0].split())


def flat_array(array: NDArray[Any], kind: Any) -> Any:
    """Return an array [n] as an Arrow array of type `kind`; it shares its memory."""
    array = np.ascontiguousarray(array)
    return pyarrow.Array.from_buffers(kind, array.size, [None, pyarrow.py_buffer(array)])
