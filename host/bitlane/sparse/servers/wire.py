"""Messages between workers and servers: record batches of Arrow Flight, each with a short record in JSON beside it.

| lane | request | answer |
| --- | --- | --- |
| `pull` | `key`: uint64 | `row`: the weights |
| `push` | `key`: uint64, `gradient`: as `row` | none |
| `dense` | `value`: float32, of all matrices side by side, or none | `value`, or none |
| `read` | `byte`: keys | `byte`: rows, then matrices |
| `step` | `byte`: a step (`steps.Step`) | none |

A lane is one `DoExchange` that stays open for many requests. The record beside a request has the number of the request
and, for updates, the sequence; that of a read has the clock and the codec. The record beside an answer has the number
and the worker's last sequence, or an error.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.reads import ReadTooEarly
from bitlane.support.optional import require_extra

PROTOCOL = 2
LANES = ("pull", "push", "dense", "read", "step")

pyarrow = require_extra("pyarrow", "a parameter server", "'bitlane[sparse]'")
flight = require_extra("pyarrow.flight", "a parameter server", "'bitlane[sparse]'")

_encoder, _decoder = json.JSONEncoder(separators=(",", ":")), json.JSONDecoder()

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class ServerBusy(BitlaneError):
    """Too many requests wait; the request may be sent again later."""


class ServerClosing(BitlaneError):
    """The server is about to end; the request may be sent again to its successor."""


class VersionMissing(BitlaneError):
    """The server does not hold the version of the model; another one may."""


class RequestExpired(BitlaneError):
    """The deadline of the request was over before the server did it."""


# How an error of the server is named on the wire, and what the client raises.
ERRORS: dict[str, type[BitlaneError]] = {
    "busy": ServerBusy,
    "closing": ServerClosing,
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
    """Return the record that tells the client of an error."""
    text = " ".join(str(error).split()) if isinstance(error, BitlaneError) else reason_of(error)
    return {"error": error_name(error), "message": text}


@cache
def request_schema(lane: str, values: int) -> Any:
    """Return the schema of a lane's requests; `values` is the number of weights of a row."""
    key = pyarrow.field("key", pyarrow.uint64(), nullable=False)
    if lane == "pull":
        return pyarrow.schema([key])
    if lane == "push":
        return pyarrow.schema([key, _rows_field("gradient", values)])
    return _DENSE if lane == "dense" else _BYTES


@cache
def answer_schema(lane: str, values: int) -> Any:
    """Return the schema of a lane's answers."""
    if lane in ("pull", "push"):
        return pyarrow.schema([_rows_field("row", values)])
    return _DENSE if lane == "dense" else _BYTES


def key_batch(keys: Keys) -> Any:
    """Return a request to pull; it shares the memory of the keys."""
    return pyarrow.record_batch([flat_array(keys, pyarrow.uint64())], schema=request_schema("pull", 0))


def gradient_batch(keys: Keys, gradients: Floats) -> Any:
    """Return a request to push, from keys [n] and gradients [n, values]; it shares their memory."""
    schema = request_schema("push", gradients.shape[1])
    columns = [flat_array(keys, pyarrow.uint64()), _rows(gradients, schema.field("gradient").type)]
    return pyarrow.record_batch(columns, schema=schema)


def row_batch(weights: Floats) -> Any:
    """Return an answer with weights [n, values]; it shares their memory."""
    schema = answer_schema("pull", weights.shape[1])
    return pyarrow.record_batch([_rows(weights, schema.field("row").type)], schema=schema)


def dense_batch(values: Floats) -> Any:
    """Return a batch with the values of matrices [n]; it shares their memory."""
    return pyarrow.record_batch([flat_array(values, pyarrow.float32())], schema=_DENSE)


def byte_batch(data: NDArray[np.uint8]) -> Any:
    """Return a batch with bytes [n]; it shares their memory."""
    return pyarrow.record_batch([flat_array(data, pyarrow.uint8())], schema=_BYTES)


def array_of(batch: Any, column: int, dtype: Any) -> NDArray[Any]:
    """Return a column [n], or [n, values] if it is a list, without a copy where its memory is aligned.

    Numba compiles a loop again for arrays that cannot be written, so the array can be; nobody else has its memory.
    """
    found = batch.column(column)
    values = found.type.list_size if found.type.num_fields else None
    flat = found if values is None else found.values  # with the items before and after a slice
    size, start = len(found), found.offset
    if values is not None:
        size, start = size * values, start * values + flat.offset
    array = items_of(flat.buffers()[1], dtype, start, size)
    return array if values is None else array.reshape(len(found), values)


def items_of(buffer: Any, dtype: Any, start: int, size: int) -> NDArray[Any]:
    """Return `size` items of a buffer from item `start` on, as `array_of` does."""
    item = np.dtype(dtype).itemsize
    if size == 0:
        return np.zeros(0, dtype)
    if (buffer.address + item * start) % item:
        array: NDArray[Any] = np.frombuffer(buffer, dtype, size, item * start).copy()
        return array
    memory = (ctypes.c_char * (item * size)).from_address(buffer.address + item * start)
    memory.owner = buffer  # lives as long as the array
    array = np.frombuffer(memory, dtype)
    return array


def to_bytes(record: Mapping[str, Any]) -> bytes:
    """Return a record in JSON."""
    return _encoder.encode(record).encode()


def from_bytes(data: Any) -> dict[str, Any]:
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


def _rows_field(name: str, values: int) -> Any:
    number = pyarrow.field("item", pyarrow.float32(), nullable=False)
    return pyarrow.field(name, pyarrow.list_(number, values), nullable=False)


_DENSE = pyarrow.schema([pyarrow.field("value", pyarrow.float32(), nullable=False)])
_BYTES = pyarrow.schema([pyarrow.field("byte", pyarrow.uint8(), nullable=False)])


def flat_array(array: NDArray[Any], kind: Any) -> Any:
    """Return an array [n] as an Arrow array of type `kind`; it shares its memory."""
    array = np.ascontiguousarray(array)
    return pyarrow.Array.from_buffers(kind, array.size, [None, pyarrow.py_buffer(array)])


def _rows(rows: Floats, kind: Any) -> Any:
    numbers = flat_array(np.asarray(rows, np.float32), pyarrow.float32())
    return pyarrow.Array.from_buffers(kind, len(rows), [None], children=[numbers])
