"""Keys of categorical cells by the first rule, of models that were saved before there were types of columns."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.arrow_cells import by_entry, missing_of, text_of
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.hashing import cell_key, integer_keys, text_keys


def first_keys_of(column: pa.Array, name: str, location: RowLocation) -> NDArray[np.uint64]:
    """Return the keys of the cells of a categorical column: uint64 [rows].

    Each entry of a dictionary is hashed once. Booleans are ``true`` and ``false``; floats without a
    fraction are integers; dates and times as Arrow writes them.

    Raises
    ------
    DataError
        The column has fractions or lists.
    """
    kind = column.type
    missing = missing_of(column)
    if pa.types.is_dictionary(kind):
        keys = by_entry(column, lambda cells: first_keys_of(cells, name, location))
    elif pa.types.is_integer(kind):
        keys = integer_keys(name, np.asarray(pc.fill_null(column, 0)))
    elif pa.types.is_floating(kind):
        numbers = np.asarray(pc.fill_null(column, 0))
        wrong = ~(np.abs(numbers) < 2.0**63) | (numbers != np.trunc(numbers))
        if wrong.any():
            row = int(np.argmax(wrong))
            reason = f"categorical column {name!r} has the fraction {numbers[row]:g}: list it as numeric, or write text"
            raise location.error(row, reason)
        keys = integer_keys(name, numbers.astype(np.int64))
    elif pa.types.is_nested(kind):
        raise DataError(f"{location.file}: categorical column {name!r} is {kind}; cells must be text or integers")
    else:
        keys = text_keys(name, *text_of(column))
    if missing is not None:
        keys[missing] = cell_key(name, None)
    return keys
