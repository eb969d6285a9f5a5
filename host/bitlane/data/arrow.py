"""Tables of Arrow as matrices. pyarrow is never imported here: who passes its tables has imported it."""

# pyarrow has no types: tables and columns are Any.
from __future__ import annotations

import sys
from typing import Any

import numpy as np

from bitlane.errors import DataError
from bitlane.quantization.scaling import Matrix


def is_arrow(X: Any) -> bool:
    """Return whether X is a table or a record batch of pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(X, (pyarrow.Table, pyarrow.RecordBatch))


def arrow_matrix(X: Any) -> Matrix:
    """Return the columns of an Arrow table as one array [rows, n] of the type that holds all of them.

    Parameters
    ----------
    X : pyarrow.Table or pyarrow.RecordBatch
        Columns of integers, floats or booleans without nulls.

    Raises
    ------
    DataError
        A column has another type, or nulls.
    """
    for name, column in zip(X.schema.names, X.columns, strict=True):
        _check(name, column)
    types = [np.dtype(column.type.to_pandas_dtype()) for column in X.columns]
    matrix = np.empty((X.num_rows, X.num_columns), np.result_type(*types) if types else np.float64)
    for j, column in enumerate(X.columns):
        first = 0
        for chunk in getattr(column, "chunks", [column]):
            matrix[first : first + len(chunk), j] = chunk.to_numpy(zero_copy_only=False)
            first += len(chunk)
    return matrix


def _check(name: str, column: Any) -> None:
    types = sys.modules["pyarrow"].types
    if not any(of(column.type) for of in (types.is_integer, types.is_floating, types.is_boolean)):
        raise DataError(f"column {name!r} of X holds {column.type} values: it must contain numbers; encode or drop it")
    if column.null_count:
        raise DataError(f"column {name!r} of X has {column.null_count} null(s): fill them, or drop these rows")
