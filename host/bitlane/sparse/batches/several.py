"""Columns whose cells have several values: lists, and texts with a separator. Each value is a feature."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.arrow_cells import is_cell, is_list, is_text
from bitlane.sparse.batches.cell_keys import keys_of
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.hashing import cell_key
from bitlane.sparse.batches.schema import Schema

Keys = NDArray[np.uint64]
Rows = tuple[Keys, NDArray[np.uint16], NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class Values:
    """The features of one column.

    Attributes
    ----------
    keys : uint64 [n]
    values : float32 [n]
    counts : int64 [rows]
        Features of each row, one at least.
    """

    keys: Keys
    values: NDArray[np.float32]
    counts: NDArray[np.int64]


def values_of(column: pa.Array, name: str, schema: Schema, location: RowLocation) -> Values:
    """Return the features of a column with several values in a cell.

    Parameters
    ----------
    column : pyarrow.Array [rows]
        Lists; or texts, which are cut at the schema's separator; or cells of one value.
    name : str
        Of the column.
    schema : Schema
    location : RowLocation
        Of the first row.

    Returns
    -------
    Values
        Missing and empty entries are left out. A cell without any has the key of the missing cell.

    Raises
    ------
    DataError
        The entries of the lists cannot be features.
    """
    entries, lengths = _entries(column, schema.several_separator)
    if not is_cell(entries.type):
        raise DataError(f"{location.file}: column {name!r} is {column.type}, whose entries are no features")
    there = np.asarray(pc.fill_null(_is_there(entries), False))
    rows = np.repeat(np.arange(len(column)), lengths)[there]
    counts = np.bincount(rows, minlength=len(column)).astype(np.int64)
    found = keys_of(entries.filter(pa.array(there)), name, schema.type_of(name), location, schema.decimal)
    empty = counts == 0
    counts[empty] = 1
    keys = np.full(int(counts.sum()), cell_key(name, None), np.uint64)
    keys[~np.repeat(empty, counts)] = found
    weights = 1.0 / counts if dict(schema.several)[name] == "mean" else np.ones(len(counts))
    return Values(keys, np.repeat(weights, counts).astype(np.float32), counts)


def interleaved(keys: Keys, values: NDArray[np.float32], counts: NDArray[np.int64], several: dict[int, Values]) -> Rows:
    """Return the features of rows in the order of their fields: keys, fields, values and offsets of a batch.

    Parameters
    ----------
    keys : uint64 [rows, fields]
    values : float32 [rows, fields]
        Of the fields with one feature at most; what the others have does not matter.
    counts : int64 [rows, fields]
        How many features each row has in these fields, 0 or 1.
    several : dict of int to Values
        The other fields.
    """
    rows, width = keys.shape
    for field, column in several.items():
        counts[:, field] = column.counts
    ends = np.cumsum(counts.ravel())
    starts = (ends - counts.ravel()).reshape(rows, width)
    total = int(ends[-1]) if len(ends) else 0
    all_keys, all_values = np.empty(total, np.uint64), np.empty(total, np.float32)
    single = counts == 1
    single[:, list(several)] = False
    all_keys[starts[single]], all_values[starts[single]] = keys[single], values[single]
    for field, column in several.items():
        before = np.cumsum(column.counts) - column.counts
        at = np.repeat(starts[:, field] - before, column.counts) + np.arange(len(column.keys))
        all_keys[at], all_values[at] = column.keys, column.values
    fields = np.repeat(np.tile(np.arange(width, dtype=np.uint16), rows), counts.ravel())
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.sum(axis=1, dtype=np.int64))])
    return all_keys, fields, all_values, offsets


def _entries(column: pa.Array, separator: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the entries of all cells one after the other, and how many each cell has: int64 [rows]."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text(column.type):
        column = pc.split_pattern(pc.cast(column, pa.large_string()), separator)
    if not is_list(column.type):
        return column, np.ones(len(column), np.int64)
    return column.flatten(), np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)


def _is_there(entries: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(entries.type):
        entries = entries.dictionary_decode()
    if not is_text(entries.type):
        return entries.is_valid()
    return pc.greater(pc.binary_length(pc.cast(entries, pa.large_binary())), 0)
