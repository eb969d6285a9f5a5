"""Requests and answers of the Open Inference Protocol, version 2, in JSON.

A request has either rows of keys, or a tensor for each column of the training.

| tensor | datatype | shape | |
| --- | --- | --- | --- |
| `keys` | UINT64 | [nnz] | |
| `offsets` | INT64 | [rows + 1] | row r has the features offsets[r] to offsets[r + 1] - 1 |
| `fields` | UINT16 | [nnz] | optional: 0 |
| `values` | FP32 | [nnz] | optional: 1 |
| a categorical column | BYTES, BOOL or an integer type | [rows] or [rows, 1] | null: missing |
| a numeric column | FP32, FP64, BYTES or an integer type | [rows] or [rows, 1] | null: missing |

Columns are hashed as in the training: see `bitlane.sparse.batches.schema`. The answer has the tensor `predictions`,
FP32 [rows].
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation, near_names, one_line
from bitlane.sparse.batches.columns import batch_of_columns
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.serving.requests import RequestBounds, batch_of
from bitlane.sparse.serving.served_model import Answer, ServedVersion

OUTPUT = "predictions"
KEY_TENSORS: dict[str, str] = {"keys": "UINT64", "offsets": "INT64", "fields": "UINT16", "values": "FP32"}
_OPTIONAL = ("fields", "values")
_FLOAT_END = 2**1024  # integers from here on are no float64
_TYPES: dict[str, Any] = {
    "BOOL": pa.bool_(),
    **{f"{sign}INT{bits}": getattr(pa, f"{sign.lower()}int{bits}")() for sign in ("U", "") for bits in (8, 16, 32, 64)},
    "FP32": pa.float32(),
    "FP64": pa.float64(),
    "BYTES": pa.string(),
}


@dataclass(frozen=True)
class Tensor:
    """An input of a request.

    Attributes
    ----------
    name : str
    datatype : str
        Of the protocol, such as ``"FP32"``.
    data : list
        The items, flattened.
    """

    name: str
    datatype: str
    data: list[Any]


@dataclass(frozen=True)
class InferRequest:
    """A request: its inputs by name, and the identifier that the answer repeats, if it has one."""

    tensors: dict[str, Tensor]
    id: str | None = None


def read_request(body: bytes) -> InferRequest:
    """Return the request in the body of a POST.

    Raises
    ------
    DataError
        It is not JSON, or not of the protocol.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the body is not JSON: {one_line(error)}") from None
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise DataError("the body must be a JSON object with a list of 'inputs'")
    given = request.get("id")
    if given is not None and not isinstance(given, str):
        raise DataError(f"id must be a string; got {json.dumps(given)[:40]}")
    outputs = request.get("outputs", [])
    for each in outputs if isinstance(outputs, list) else [outputs]:
        if not isinstance(each, dict) or each.get("name") != OUTPUT:
            shown = each.get("name") if isinstance(each, dict) else each
            raise DataError(f"unknown output {shown!r}; there is {OUTPUT!r}")
    tensors: dict[str, Tensor] = {}
    for each in request["inputs"]:
        tensor = _tensor_of(each)
        if tensor.name in tensors:
            raise DataError(f"tensor {tensor.name!r} appears twice")
        tensors[tensor.name] = tensor
    return InferRequest(tensors, given)


def batch_of_tensors(tensors: Mapping[str, Tensor], version: ServedVersion, bounds: RequestBounds) -> Batch:
    """Return the rows of a request.

    Parameters
    ----------
    tensors : mapping of str to Tensor
    version : ServedVersion
        Without a schema only rows of keys are valid.
    bounds : RequestBounds

    Raises
    ------
    DataError
        A tensor is unknown, missing, of another datatype, too large, or does not fit the others.
    """
    schema = version.schema
    if schema is not None and ("keys" not in tensors or "keys" in schema.columns):
        return _batch_of_cells(tensors, schema, bounds)
    _check_names(tensors, KEY_TENSORS, [name for name in KEY_TENSORS if name not in _OPTIONAL])
    version.check_fields("fields" in tensors, len(tensors["keys"].data))
    bounds.check(max(len(tensors["offsets"].data) - 1, 0), len(tensors["keys"].data))
    arrays = {
        name: None if name not in tensors else _numbers(tensors[name], datatype)
        for name, datatype in KEY_TENSORS.items()
    }
    keys, offsets = arrays["keys"], arrays["offsets"]
    assert keys is not None and offsets is not None
    return batch_of(keys, offsets, arrays["fields"], arrays["values"])


def input_metadata(schema: Schema | None) -> list[dict[str, Any]]:
    """Return the inputs that a model takes, as the protocol's metadata have them."""
    if schema is None:
        return [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in KEY_TENSORS.items()]
    numeric = schema.read_as_numbers
    return [
        {"name": name, "datatype": "FP32" if name in numeric else "BYTES", "shape": [-1]} for name in schema.columns
    ]


def output_metadata() -> list[dict[str, Any]]:
    """Return the outputs of a model."""
    return [{"name": OUTPUT, "datatype": "FP32", "shape": [-1]}]


def write_answer(name: str, answer: Answer, request: InferRequest) -> bytes:
    """Return the JSON of an answer.

    Raises
    ------
    BitlaneError
        A prediction is not finite: JSON has no such numbers.
    """
    predictions = answer.predictions
    finite = np.isfinite(predictions)
    if not finite.all():
        row = int(np.argmin(finite))
        raise BitlaneError(f"the prediction of row {row} is {predictions[row]:g}, which JSON cannot represent")
    output = {"name": OUTPUT, "datatype": "FP32", "shape": [len(predictions)], "data": predictions.tolist()}
    record: dict[str, Any] = {"model_name": name, "model_version": str(answer.version)}
    if request.id is not None:
        record["id"] = request.id
    parameters: dict[str, Any] = {"seconds": answer.seconds}
    if answer.missing:
        parameters |= {"partial": True, "missing_shards": list(answer.missing)}
    record |= {"parameters": parameters, "outputs": [output]}
    return json.dumps(record, separators=(",", ":")).encode()


def _tensor_of(given: object) -> Tensor:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise DataError("each input must be an object with a name, a datatype, a shape and data")
    name, datatype, shape, data = given["name"], given.get("datatype"), given.get("shape"), given.get("data")
    if datatype not in _TYPES:
        raise DataError(f"tensor {name!r} has datatype {datatype!r}; one of {', '.join(_TYPES)} is needed")
    if not isinstance(data, list):
        raise DataError(f"tensor {name!r} has no list of data")
    while data and isinstance(data[0], list):
        if not all(isinstance(each, list) for each in data):
            raise DataError(f"tensor {name!r} has lists of different depth")
        data = [item for each in data for item in each]
    if (
        not isinstance(shape, list)
        or not all(type(size) is int and size >= 0 for size in shape)
        or len(shape) not in (1, 2)
        or (len(shape) == 2 and shape[1] != 1)
    ):
        raise DataError(f"tensor {name!r} must have the shape [n] or [n, 1]; got {json.dumps(shape)[:80]}")
    if math.prod(shape) != len(data):
        raise DataError(f"tensor {name!r} has the shape {shape}, but {len(data)} items")
    return Tensor(name, datatype, data)


def _check_names(tensors: Mapping[str, Tensor], known: Mapping[str, object], wanted: list[str]) -> None:
    for name in tensors:
        if name not in known:
            raise DataError(f"unknown tensor {name!r}{near_names(name, known)}")
    for name in wanted:
        if name not in tensors:
            raise DataError(f"tensor {name!r} is missing")


def _numbers(tensor: Tensor, datatype: str) -> NDArray[Any]:
    """Return the data of a tensor that must be of this datatype and without nulls."""
    if tensor.datatype != datatype:
        raise DataError(f"tensor {tensor.name!r} must have datatype {datatype}; got {tensor.datatype}")
    dtype = np.dtype(_TYPES[datatype].to_pandas_dtype())
    kinds = set(map(type, tensor.data))
    if dtype.kind == "f" and kinds <= {int, float}:
        with np.errstate(over="ignore"), contextlib.suppress(OverflowError):
            return np.array(tensor.data, np.float64).astype(dtype)
    if dtype.kind != "f" and kinds <= {int} and all(_in_range(end, dtype) for end in _ends(tensor.data)):
        return np.array(tensor.data, dtype)
    at, wrong = next(item for item in enumerate(tensor.data) if not _fits(item[1], dtype))
    raise DataError(f"tensor {tensor.name!r}: item {at} is {json.dumps(wrong)[:40]}, which is not a {datatype} number")


def _fits(item: object, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        return type(item) is float or (type(item) is int and abs(item) < _FLOAT_END)
    return type(item) is int and _in_range(item, dtype)


def _ends(items: list[int]) -> tuple[int, ...]:
    return (min(items), max(items)) if items else ()


def _in_range(item: int, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= item <= int(limits.max)


def _batch_of_cells(tensors: Mapping[str, Tensor], schema: Schema, bounds: RequestBounds) -> Batch:
    _check_names(tensors, dict.fromkeys(schema.columns), list(schema.columns))
    sizes = {name: len(tensor.data) for name, tensor in tensors.items()}
    rows = next(iter(sizes.values()))
    for name, size in sizes.items():
        if size != rows:
            raise DataError(f"tensor {name!r} has {size} rows, but {next(iter(sizes))!r} has {rows}")
    bounds.check(rows, rows * len(schema.field_names))
    columns = []
    for name in schema.columns:
        tensor = tensors[name]
        try:
            columns.append(pa.array(tensor.data, _TYPES[tensor.datatype]))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"tensor {name!r} of datatype {tensor.datatype}: {one_line(error)}") from error
    cells = pa.record_batch(columns, names=list(schema.columns))
    batch = batch_of_columns(cells, schema, location=RowLocation("request"), labelled=False)
    bounds.check(rows, batch.nnz)  # cells of several values have more
    return batch
