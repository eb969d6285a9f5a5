"""Columns of Arrow: their types, their missing cells, and the bytes of their text."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def text_of(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of all cells, uint8, and where each begins and ends, int64 [rows + 1]. A null has no bytes."""
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        column, kind = pc.cast(column, pa.large_binary()), pa.large_binary()
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (large or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        binary = str(kind).startswith("binary")
        column, large = pc.cast(column, pa.large_binary() if binary else pa.large_string()), True
    if column.null_count:
        column = pc.fill_null(column, "" if "string" in str(column.type) else b"")
    _, ends, data = column.buffers()
    count = len(column)
    if count == 0 or ends is None:
        return np.zeros(0, np.uint8), np.zeros(count + 1, np.int64)
    offsets = np.frombuffer(ends, np.int64 if large else np.int32)[column.offset : column.offset + count + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return text, offsets.astype(np.int64)


def missing_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Return which cells are null, bool [rows], or None if there is none."""
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None


def by_entry(column: pa.Array, keys_of: Callable[[pa.Array], NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the keys of a dictionary's cells, uint64 [rows], of which each entry is hashed once; nulls have any."""
    if len(column.dictionary) > 2 * len(column):
        return keys_of(column.dictionary_decode())
    keys = keys_of(column.dictionary)
    codes = np.asarray(pc.fill_null(column.indices, 0))
    return keys[codes] if len(keys) else np.zeros(len(codes), np.uint64)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text or bytes, whichever its layout."""
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
    known = [getattr(pa.types, f"is_{name}", None) for name in tests]  # views came after pyarrow 15
    return any(test(kind) for test in known if test is not None)


def is_cell(kind: pa.DataType) -> bool:
    """Whether a type has one value in a row that can be a feature: no list, structure, map, duration or the like."""
    if pa.types.is_dictionary(kind):
        return is_cell(kind.value_type)
    tests = ("null", "boolean", "integer", "floating", "decimal", "date", "time", "timestamp")
    return is_text(kind) or any(getattr(pa.types, f"is_{name}")(kind) for name in tests)


def is_several(kind: pa.DataType) -> bool:
    """Whether a type has several categories in a row: a list of texts, integers, truth values, dates or times."""
    if not is_list(kind):
        return False
    entry = kind.value_type.value_type if pa.types.is_dictionary(kind.value_type) else kind.value_type
    bytes_or_numbers = "binary" in str(entry) or pa.types.is_floating(entry) or pa.types.is_decimal(entry)
    return is_cell(entry) and not bytes_or_numbers


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list, whichever its layout."""
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))
