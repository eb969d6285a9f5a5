"""Record batches with a list of keys in each row to a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import LARGEST_FIELD, Place, check_finite
from bitlane.sparse.batches.columns import labels_of, times_of
from bitlane.sparse.batches.schema import ListSchema, wanted_columns


def batch_of_lists(
    rows: Any,
    schema: ListSchema,
    *,
    task: str = "classification",
    max_fields: int | None = None,
    place: Place,
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
    max_fields : int, optional
        Fields must be below it.
    place : Place
        Of the first row.
    labelled : bool, default=True
        False: without a label column, labels are nan.

    Returns
    -------
    Batch

    Raises
    ------
    DataError
        A list cannot be used: the message has file and row.
    """
    wanted_columns(schema, rows.schema.names, place.file, labelled)
    keys, offsets = _flat(rows, schema.keys, place)
    if not pa.types.is_integer(keys.type):
        raise DataError(f"{place.file}: keys {schema.keys!r} are {keys.type}; they must be whole numbers")
    nnz = len(keys)
    found = np.asarray(keys)
    _check_range(found, None, offsets, f"keys {schema.keys!r}", place)
    fields, values = np.zeros(nnz, np.uint16), np.ones(nnz, np.float32)
    if schema.fields is not None:
        given = _beside(rows, schema.fields, offsets, place)
        if not pa.types.is_integer(given.type):
            raise DataError(f"{place.file}: fields {schema.fields!r} are {given.type}; they must be whole numbers")
        end = LARGEST_FIELD + 1 if max_fields is None else max_fields
        _check_range(np.asarray(given), end, offsets, f"fields {schema.fields!r}", place)
        fields = np.asarray(given).astype(np.uint16)
    if schema.values is not None:
        given = _beside(rows, schema.values, offsets, place)
        if not (pa.types.is_floating(given.type) or pa.types.is_integer(given.type)):
            raise DataError(f"{place.file}: values {schema.values!r} are {given.type}; they must be numbers")
        with np.errstate(over="ignore"):
            values = np.asarray(given).astype(np.float32)
        if not np.isfinite(values).all():
            check_finite(values, _rows_of(offsets), f"values {schema.values!r}", place)
    labels, times = labels_of(rows, schema, task, place), times_of(rows, schema, place)
    return Batch(found.astype(np.uint64), fields, values, offsets, labels, times)


def _flat(rows: Any, name: str, place: Place) -> tuple[Any, NDArray[np.int64]]:
    """Return the lists' entries one after the other, and where each list begins: int64 [rows + 1]."""
    column = rows.column(name)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DataError(f"{place.file}: column {name!r} is {kind}; it must be a list")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    entries = column.flatten()
    if entries.null_count:
        index = int(np.argmax(entries.is_null().to_numpy(zero_copy_only=False)))
        raise place.error(_row_of(index, offsets), f"{name!r} has an empty entry")
    return entries, offsets


def _beside(rows: Any, name: str, offsets: NDArray[np.int64], place: Place) -> Any:
    """Return the entries of a column whose lists are as long as those of the keys."""
    entries, ends = _flat(rows, name, place)
    different = np.diff(ends) != np.diff(offsets)
    if different.any():
        row = int(np.argmax(different))
        counts = int(np.diff(ends)[row]), int(np.diff(offsets)[row])
        raise place.error(row, f"{name!r} has {counts[0]} entries for {counts[1]} keys")
    return entries


def _check_range(
    found: NDArray[np.integer], end: int | None, offsets: NDArray[np.int64], what: str, place: Place
) -> None:
    """Raise DataError for the first number below 0, or not below `end`."""
    if len(found) == 0:
        return
    if found.min() < 0 or (end is not None and found.max() >= end):
        wrong = found < 0 if end is None else (found < 0) | (found >= end)
        index = int(np.argmax(wrong))
        limit = "the smallest is 0" if found[index] < 0 else f"the largest is {0 if end is None else end - 1}"
        raise place.error(_row_of(index, offsets), f"{what} have {found[index]}; {limit}")


def _row_of(index: int, offsets: NDArray[np.int64]) -> int:
    return int(np.searchsorted(offsets, index, side="right")) - 1


def _rows_of(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
