"""Keys of the cells of a categorical column: those of the texts in `cell_texts`."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.arrow_cells import by_entry, is_list, is_text, missing_of, text_of
from bitlane.sparse.batches.cell_texts import text_of_boolean, text_of_integer, text_of_number, text_of_text
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.hashing import cell_key, cell_keys, integer_keys, text_keys
from bitlane.sparse.batches.scanning import plain_integers
from bitlane.sparse.batches.times import PER_SECOND, clock_text, time_text

Keys = NDArray[np.uint64]
Texts = Iterable[str | None]


def type_of(kind: pa.DataType) -> str:
    """Return the type of a column, one of `cell_texts.TYPES`, by its type in Arrow."""
    if pa.types.is_dictionary(kind) or is_list(kind):
        return type_of(kind.value_type)
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "time" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind) else "text"


def keys_of(column: pa.Array, name: str, kind: str, location: RowLocation, decimal: str = ".") -> Keys:
    """Return the keys of the cells of a categorical column.

    Parameters
    ----------
    column : pyarrow.Array [rows]
        Of any type but lists, structures and maps.
    name : str
        Of the column.
    kind : {"text", "number", "boolean", "time"}
        Its type in the schema: how its texts are read.
    location : RowLocation
        Of the first row.
    decimal : {".", ","}, default="."
        Of numbers in text.

    Returns
    -------
    uint64 [rows]

    Raises
    ------
    DataError
        The type has no text, or a time is beyond the years 1 to 9999.
    """
    given = column.type
    if pa.types.is_dictionary(given):
        keys = by_entry(column, lambda cells: keys_of(cells, name, kind, location, decimal))
    elif pa.types.is_integer(given) and kind != "boolean":
        keys = integer_keys(name, np.asarray(pc.fill_null(column, 0)))
    elif is_text(given):
        keys = _of_texts(column, name, kind, decimal)
    elif pa.types.is_null(given):
        return np.full(len(column), cell_key(name, None), np.uint64)
    else:
        return _of_values(column, name, _texts_of(given, name, kind, location))
    if (missing := missing_of(column)) is not None:
        keys[missing] = cell_key(name, None)
    return keys


def _of_texts(column: pa.Array, name: str, kind: str, decimal: str) -> Keys:
    """Texts of columns of text, and plain integers among numbers, are hashed as they are; others are read first."""
    text, offsets = text_of(column)
    if kind == "text":
        return text_keys(name, text, offsets)
    plain = np.zeros(len(column), np.bool_)
    if kind == "number":
        plain_integers(text, offsets, plain)
    keys = text_keys(name, text, offsets)
    if plain.all():
        return keys
    others = column.filter(pa.array(~plain))
    keys[~plain] = _of_values(others, name, lambda cells: (_read(cell, kind, decimal) for cell in cells.to_pylist()))
    return keys


def _read(cell: str | bytes, kind: str, decimal: str) -> str | bytes | None:
    """Return the text of a value that is written as `cell`; bytes that are no UTF-8 stay as they are."""
    if isinstance(cell, bytes):
        try:
            cell = cell.decode()
        except UnicodeDecodeError:
            return cell
    return text_of_text(cell, kind, decimal)


def _of_values(column: pa.Array, name: str, texts_of: Callable[[pa.Array], Iterable[str | bytes | None]]) -> Keys:
    """Return the keys of cells of which each distinct value is written once, by `texts_of`."""
    coded = pc.dictionary_encode(column)
    texts = ["" if text is None else text for text in texts_of(coded.dictionary)]
    keys = np.append(cell_keys(name, texts), np.uint64(cell_key(name, None)))  # the last one: missing
    found: Keys = keys[np.asarray(pc.fill_null(coded.indices, len(texts)))]
    return found


def _texts_of(given: pa.DataType, name: str, kind: str, location: RowLocation) -> Callable[[pa.Array], Texts]:
    """Return the function that writes distinct values of a type of Arrow."""
    if pa.types.is_boolean(given):
        return lambda cells: (text_of_boolean(each, kind) for each in cells.to_pylist())
    if pa.types.is_integer(given):
        return lambda cells: (text_of_integer(each, kind) for each in cells.to_pylist())
    if pa.types.is_floating(given):
        return lambda cells: (text_of_number(each, kind) for each in np.asarray(cells))
    if pa.types.is_decimal(given):
        return lambda cells: (text_of_text(str(each), "number") for each in cells.to_pylist())
    if pa.types.is_date32(given):
        return lambda cells: (time_text(86_400 * each, 1) for each in _counts(cells, pa.int32()))
    if pa.types.is_date64(given):
        return lambda cells: (time_text(each, PER_SECOND["ms"]) for each in _counts(cells, pa.int64()))
    if pa.types.is_timestamp(given):
        return lambda cells: (time_text(each, PER_SECOND[given.unit]) for each in _counts(cells, pa.int64()))
    if pa.types.is_time(given):
        width = pa.int32() if pa.types.is_time32(given) else pa.int64()
        return lambda cells: (clock_text(each, PER_SECOND[given.unit]) for each in _counts(cells, width))
    remedy = "use --several" if is_list(given) else "leave it out"
    raise DataError(f"{location.file}: categorical column {name!r} is {given}: it has no text; {remedy}")


def _counts(cells: pa.Array, width: pa.DataType) -> list[int]:
    counts: list[int] = cells.cast(width).to_pylist()
    return counts
