"""Messages between a front and its weight servers: record batches of Arrow Flight, each with a record beside it.

Records are in JSON.

A request has the column `key` (uint64). The record beside it has the version, and the seconds that are left until the
front's deadline.

An answer is one row with two lists: `weights` (float32, the weights of the first key, then of the second, and so on)
and `found` (uint8, 1 where the key is known). So the arrays are sent as they lie in memory, and a lane stays open when
a version with another number of weights comes. The record beside it is empty, or has an error.
"""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.scoring.layers import Floats, Keys, Known
from bitlane.sparse.servers.wire import KEY_SCHEMA, array_of, flat_array, items_of, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

LANE = "lookup"
_FLOAT, _BYTE = (pyarrow.field("item", kind, nullable=False) for kind in (pyarrow.float32(), pyarrow.uint8()))
ANSWER = pyarrow.schema(
    [
        pyarrow.field("weights", pyarrow.large_list(_FLOAT), nullable=False),
        pyarrow.field("found", pyarrow.large_list(_BYTE), nullable=False),
    ]
)


def keys_of_request(batch: pa.RecordBatch | None) -> Keys:
    """Return the keys of a request, uint64 [n], without a copy where they are aligned.

    Raises
    ------
    DataError
        The request has other columns, or is damaged.
    """
    if batch is None or not batch.schema.equals(KEY_SCHEMA):
        columns = "none" if batch is None else ", ".join(f"{each.name}: {each.type}" for each in batch.schema)
        raise DataError(f"a request for weights has the column key: uint64; got {columns}")
    try:
        batch.validate()  # the sizes of the buffers
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"the request is damaged: {error}") from error
    return array_of(batch, 0, np.uint64)


def answer_batch(weights: Floats, known: Known) -> Any:
    """Return an answer with weights [n, values] and known [n]; it shares their memory."""
    columns = [
        _one_list(ANSWER.field(0).type, weights.reshape(-1)),
        _one_list(ANSWER.field(1).type, known.view(np.uint8)),
    ]
    return pyarrow.record_batch(columns, schema=ANSWER)


def weights_of_answer(batch: pa.RecordBatch | None, count: int, values: int) -> tuple[Floats, Known]:
    """Return the weights, float32 [count, values], and the known keys, bool [count], of an answer, without a copy.

    Raises
    ------
    BitlaneError
        The answer is not for so many keys and weights.
    """
    if batch is None or not batch.schema.equals(ANSWER) or len(batch) != 1:
        raise BitlaneError("the answer has other columns than weights and found")
    weights, known = _items(batch.column(0), np.float32), _items(batch.column(1), np.uint8)
    if len(weights) != count * values or len(known) != count:
        raise BitlaneError(f"the answer has {len(weights)} weights of {len(known)} keys, not {values} of {count} each")
    return weights.reshape(count, values), known.view(np.bool_)


def _one_list(kind: pa.DataType, items: NDArray[Any]) -> Any:
    offsets = pyarrow.py_buffer(np.array([0, len(items)], np.int64))
    return pyarrow.Array.from_buffers(kind, 1, [None, offsets], children=[flat_array(items, kind.value_type)])


def _items(column: pa.Array, dtype: DTypeLike) -> NDArray[Any]:
    offsets = items_of(column.buffers()[1], np.int64, column.offset, 2)
    child = column.values
    return items_of(child.buffers()[1], dtype, child.offset + int(offsets[0]), int(offsets[1] - offsets[0]))
