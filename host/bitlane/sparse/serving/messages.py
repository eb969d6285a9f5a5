"""Messages of scoring requests: record batches of Arrow Flight, each with a short record in JSON beside it.

A request has one column, `features`: a large list of structs for each row, with the children `key` (uint64) and, as far
as they are sent, `field` (uint16; without it 0) and `value` (float32; without it 1). So a request is the arrays of a
`Batch` as they lie in memory: keys, fields and values one after the other, and int64 offsets. The children name the
lane: one `DoExchange` that stays open for many requests. The record beside a request may have ``"shared": true``: the
first row's features belong to each other row, before its own, and the first row has no prediction.

An answer has the column `prediction` (float32). The record beside it has the version of the model that made all of
them, the seconds that the server spent, and ``missing``, the shards of the model that did not answer in time, if there
are any; or an error.
"""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers.wire import flat_array, items_of, pyarrow
from bitlane.sparse.serving.requests import Fields, Floats, Keys, Offsets, RequestBounds, batch_of

if TYPE_CHECKING:
    import pyarrow as pa

LANES = ("key", "key field", "key value", "key field value")
_TYPES = {"key": pyarrow.uint64(), "field": pyarrow.uint16(), "value": pyarrow.float32()}
_DTYPES = {"key": np.uint64, "field": np.uint16, "value": np.float32}
ANSWER = pyarrow.schema([pyarrow.field("prediction", pyarrow.float32(), nullable=False)])


@cache
def request_schema(lane: str) -> Any:
    """Return the schema of a lane's requests."""
    children = [pyarrow.field(name, _TYPES[name], nullable=False) for name in lane.split()]
    item = pyarrow.field("item", pyarrow.struct(children), nullable=False)
    return pyarrow.schema([pyarrow.field("features", pyarrow.large_list(item), nullable=False)])


def lane_of(fields: Fields | None, values: Floats | None) -> str:
    """Return the lane of a request with these arrays."""
    return " ".join(["key", *["field"] * (fields is not None), *["value"] * (values is not None)])


def request_batch(keys: Keys, offsets: Offsets, fields: Fields | None, values: Floats | None) -> Any:
    """Return a request; it shares the memory of the arrays, which must fit."""
    schema = request_schema(lane_of(fields, values))
    kind = schema.field(0).type
    arrays = [("key", keys), ("field", fields), ("value", values)]
    children = [flat_array(array, _TYPES[name]) for name, array in arrays if array is not None]
    items = pyarrow.Array.from_buffers(kind.value_type, len(keys), [None], children=children)
    column = pyarrow.Array.from_buffers(
        kind, len(offsets) - 1, [None, pyarrow.py_buffer(np.ascontiguousarray(offsets))], children=[items]
    )
    return pyarrow.record_batch([column], schema=schema)


def batch_of_request(record: pa.RecordBatch | None, lane: str, bounds: RequestBounds) -> Batch:
    """Return a request as a batch, which shares its memory where that is aligned.

    Raises
    ------
    DataError
        The request has other columns, is too large, or its arrays do not fit.
    """
    if record is None:
        raise DataError("the request has no rows: send a record batch")
    if not record.schema.equals(request_schema(lane)):
        given = ", ".join(f"{each.name}: {each.type}" for each in record.schema)
        raise DataError(f"lane {lane!r} takes {request_schema(lane).field(0).type}; the request has {given}")
    try:
        record.validate()  # the sizes of the buffers, and that the offsets are within the features
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"the request is damaged: {error}") from error
    column = record.column(0)
    offsets = items_of(column.buffers()[1], np.int64, column.offset, len(column) + 1 if len(column) else 0)
    if not len(column):
        return batch_of(np.zeros(0, np.uint64), np.zeros(1, np.int64))
    items = column.values
    first, last = int(offsets[0]), int(offsets[-1])
    bounds.check(len(column), last - first)
    arrays: dict[str, Any] = {}
    for at, name in enumerate(lane.split()):
        child = items.field(at)
        arrays[name] = items_of(child.buffers()[1], _DTYPES[name], child.offset + first, last - first)
    return batch_of(arrays["key"], offsets - first if first else offsets, arrays.get("field"), arrays.get("value"))


def prediction_batch(predictions: Floats) -> Any:
    """Return an answer; it shares the memory of the predictions."""
    return pyarrow.record_batch([flat_array(predictions, pyarrow.float32())], schema=ANSWER)
