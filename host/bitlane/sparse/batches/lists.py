"""Record batches with a list of keys in each row to a batch."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import LARGEST_FIELD, RowLocation, check_finite
from bitlane.sparse.batches.columns import labels_of, times_of, weights_of
from bitlane.sparse.batches.schema import ListSchema, wanted_columns


def batch_of_lists(
    rows: pa.RecordBatch,
    schema: ListSchema,
    *,
    task: str = "classification",
    positive: str | None = None,
    max_fields: int | None = None,
    location: RowLocation,
    labelled: bool = True,
) -> Batch:
    """Return a record batch as a batch.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        With the columns of `schema`. A null list is an empty one.
    schema : ListSchema
    task : {"classification", "regression"}, default="classification"
        Which labels are valid: see `check_labels`.
    positive : str, optional
        The label that is 1: see `labels.labels_of_values`.
    max_fields : int, optional
        Fields must be below it.
    location : RowLocation
        Of the first row.
    labelled : bool, default=True
        False: without a label column, labels are nan; weights are not read.

    Returns
    -------
    Batch

    Raises
    ------
    DataError
        A list cannot be used: the message has file and row.
    """
    wanted_columns(schema, rows.schema.names, location.file, labelled)
    keys, offsets = _flat(rows, schema.keys, location)
    if not pa.types.is_integer(keys.type):
        raise DataError(f"{location.file}: keys {schema.keys!r} are {keys.type}; they must be integers")
    nnz = len(keys)
    numbers = np.asarray(keys)
    _check_range(numbers, None, offsets, f"keys {schema.keys!r}", location)
    fields, values = np.zeros(nnz, np.uint16), np.ones(nnz, np.float32)
    if schema.fields is not None:
        given = _beside(rows, schema.fields, offsets, location)
        if not pa.types.is_integer(given.type):
            raise DataError(f"{location.file}: fields {schema.fields!r} are {given.type}; they must be integers")
        end = LARGEST_FIELD + 1 if max_fields is None else max_fields
        _check_range(np.asarray(given), end, offsets, f"fields {schema.fields!r}", location)
        fields = np.asarray(given).astype(np.uint16)
    if schema.values is not None:
        given = _beside(rows, schema.values, offsets, location)
        if not (pa.types.is_floating(given.type) or pa.types.is_integer(given.type)):
            raise DataError(f"{location.file}: values {schema.values!r} are {given.type}; they must be numbers")
        with np.errstate(over="ignore"):
            values = np.asarray(given).astype(np.float32)
        if not np.isfinite(values).all():
            check_finite(values, _rows_of(offsets), f"values {schema.values!r}", location)
    labels, times = labels_of(rows, schema, task, positive, location), times_of(rows, schema, location)
    weights = weights_of(rows, schema, location, labelled)
    return Batch(numbers.astype(np.uint64), fields, values, offsets, labels, times, weights)


def _flat(rows: pa.RecordBatch, name: str, location: RowLocation) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the lists' entries one after the other, and where each list begins: int64 [rows + 1]."""
    column = rows.column(name)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DataError(f"{location.file}: column {name!r} is {kind}; it must be a list")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    entries = column.flatten()
    if entries.null_count:
        index = int(np.argmax(entries.is_null().to_numpy(zero_copy_only=False)))
        raise location.error(_row_of(index, offsets), f"{name!r} has an empty entry")
    return entries, offsets


def _beside(rows: pa.RecordBatch, name: str, offsets: NDArray[np.int64], location: RowLocation) -> pa.Array:
    """Return the entries of a column whose lists are as long as those of the keys."""
    entries, ends = _flat(rows, name, location)
    different = np.diff(ends) != np.diff(offsets)
    if different.any():
        row = int(np.argmax(different))
        counts = int(np.diff(ends)[row]), int(np.diff(offsets)[row])
        raise location.error(row, f"{name!r} has {counts[0]} entries for {counts[1]} keys")
    return entries


def _check_range(
    numbers: NDArray[np.integer], end: int | None, offsets: NDArray[np.int64], what: str, location: RowLocation
) -> None:
    """Raise DataError for the first number below 0, or not below `end`."""
    if len(numbers) == 0:
        return
    if numbers.min() < 0 or (end is not None and numbers.max() >= end):
        wrong = numbers < 0 if end is None else (numbers < 0) | (numbers >= end)
        index = int(np.argmax(wrong))
        limit = "the smallest is 0" if numbers[index] < 0 else f"the largest is {0 if end is None else end - 1}"
        raise location.error(_row_of(index, offsets), f"{what} have {numbers[index]}; {limit}")


def _row_of(index: int, offsets: NDArray[np.int64]) -> int:
    return int(np.searchsorted(offsets, index, side="right")) - 1


def _rows_of(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
