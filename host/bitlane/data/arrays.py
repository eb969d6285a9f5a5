"""Checks of the arrays and tables that users pass. Each error is one line.

pyarrow is never imported here: who passes its tables has imported it. Its tables and columns are Any.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.quantization.row_table import PIECE, RowTable
from bitlane.quantization.scaling import Floats, Matrix
from bitlane.support.labels import as_array, missing_values, present_labels, required
from bitlane.support.sklearn_compat import DataConversionWarning
from bitlane.support.user_warnings import warn_user

WIDE = 1 << 14  # columns of a sparse table, such as words of texts, above which a fit warns


def as_table(X: Any, least: int = 0) -> Matrix:
    """Return a finite table of integers or floats [rows, n] that a training or a product with weights can read.

    Sparse and memory-mapped tables are not copied, and Arrow tables once. A `RowTable` stands for them, whose rows
    become arrays in pieces; it is no ndarray, but has all that these two need. A sparse matrix in another form than
    CSR is brought into it. All others are as of `as_matrix`.

    Parameters
    ----------
    X : array-like, sparse matrix or array of scipy, table or record batch of pyarrow, or EncodedTable
        An encoded table is returned as it is.
    least : int, default=0
        Least number of rows; 2 for a fit.

    Raises
    ------
    DataError
        X is not two-dimensional, too small, not numeric, or not finite, or an Arrow column has nulls.
    """
    if isinstance(X, EncodedTable):
        _check_shape(X.shape, least)
        return cast(Matrix, X)
    sparse, arrow = hasattr(X, "tocsr"), _is_arrow(X)
    if not (sparse or arrow or isinstance(X, np.memmap)):
        return as_matrix(X, least)
    X = _arrow_matrix(X) if arrow else X
    _check_shape(X.shape, least)
    if sparse and least > 1 and X.shape[1] > WIDE:
        warn_user(
            f"X is sparse, and all of its {X.shape[1]} columns will be stored: the estimators of bitlane.sparse store "
            "what is not 0"
        )
    dtype = numbers(np.empty(0, X.dtype), "X").dtype
    source: Any = X.tocsr() if sparse else np.asarray(X)
    values: NDArray[Any] = source.data if sparse else source
    finite(values, "X")
    return cast(Matrix, RowTable(source, dtype))


def as_matrix(X: ArrayLike, least: int = 0) -> Matrix:
    """Return X as a finite array of integers or floats [rows, n].

    Parameters
    ----------
    X : array-like
    least : int, default=0
        Least number of rows.

    Raises
    ------
    DataError
        X is sparse, not two-dimensional, too small, not numeric, or not finite; columns with text are named.
    """
    if hasattr(X, "toarray"):
        raise DataError(
            f"X is a sparse {type(X).__name__}: only dense tables are supported; convert it with X.toarray()"
        )
    table = np.asarray(as_array(X, "X"), order="C")  # sums in one order, whatever the layout of X
    _check_shape(table.shape, least)
    names = getattr(X, "columns", None)  # of any type
    return finite(numbers(table, "X", None if names is None else list(names)), "X")


def _check_shape(shape: tuple[int, ...], least: int) -> None:
    if len(shape) != 2:
        raise DataError(
            f"X has {len(shape)} dimension(s): it must have two, rows and features. Reshape your data:"
            " X.reshape(1, -1) is one row, X.reshape(-1, 1) one feature"
        )
    if least and shape[0] == 0:
        raise DataError("X has 0 rows: at least one is needed")
    if shape[0] < least:
        raise DataError(f"X has {shape[0]} sample(s): at least {least} are needed")
    if shape[1] == 0:
        raise DataError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required: there is nothing to learn from"
        )


def as_targets(y: ArrayLike | None, rows: int) -> Floats:
    """Return y as a finite float64 array [rows], or [rows, targets] if it has several columns.

    Raises
    ------
    DataError
        y is missing, has another number of rows, or is not numeric or not finite.
    """
    targets = as_array(required(y), "y")
    if targets.ndim == 2 and targets.shape[1] == 0:
        raise DataError("y has 0 columns: at least one is needed")
    targets = _of_rows(targets, rows)
    columns = targets if targets.ndim == 2 else _one_dimension(targets)
    return finite(numbers(columns, "y").astype(np.float64), "y")


def as_labels(y: ArrayLike | None, rows: int) -> NDArray[Any]:
    """Return y as an array [rows] of class labels without missing values.

    Raises
    ------
    DataError
        y is missing, has another number of rows, or some labels are missing or have a fraction.
    """
    given = as_array(required(y), "y")
    labels = _one_dimension(_of_rows(given, rows))
    if labels.ndim < given.ndim:
        message = "A column-vector y was passed when a 1d array was expected: y.ravel() is one"
        warn_user(message, DataConversionWarning)
    return present_labels(labels)


def _one_dimension(y: NDArray[Any]) -> NDArray[Any]:
    if y.ndim != 1:
        raise DataError(f"y has {y.ndim} dimension(s): it must have one value per row")
    return y


def _of_rows(y: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return y without a second axis of length 1. Raise DataError unless it has this number of rows."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim and len(y) != rows:
        raise DataError(f"X has {rows} rows, but y has {len(y)} values")
    return y


def numbers(array: NDArray[Any], name: str, columns: Sequence[Any] | None = None) -> Matrix:
    """Return an array of integers, float32 or float64 unchanged, and other real numbers as float64.

    Raises
    ------
    DataError
        The array `name` does not hold real numbers. With names of its columns the message has those at fault.
    """
    if array.dtype in (np.float32, np.float64) or array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} has {array.dtype} values; real numbers are needed")
    if (found := _floats(array)) is not None:
        return found
    if missing := missing_values(array):
        raise DataError(f"{name} holds {missing} missing value(s){_at_fault(array, columns)}: drop or fill them")
    at_fault = _at_fault(array, columns)
    what = f"encode or drop{at_fault.removeprefix(' in')}" if at_fault else "encode text first"
    raise DataError(f"{name} holds {array.dtype} values: it must contain numbers; {what}")


def _floats(array: NDArray[Any]) -> Floats | None:
    """Return real numbers as float64; None for anything else."""
    try:
        return np.asarray(array.astype(np.float64)) if array.dtype.kind in "bfO" else None
    except (TypeError, ValueError):
        return None


def _at_fault(array: NDArray[Any], columns: Sequence[Any] | None) -> str:
    """Return " in column(s) ..." with the names, or numbers, of at most five columns that hold no numbers."""
    if array.ndim != 2 or array.dtype.kind != "O":
        return ""
    if columns is None or array.shape[1] != len(columns):
        columns = range(array.shape[1])
    bad = [repr(column) for j, column in enumerate(columns) if _floats(array[:, j]) is None]
    return f" in column(s) {', '.join(bad[:5])}{' and others' * (len(bad) > 5)}" if bad else ""


_AnyArray = TypeVar("_AnyArray", bound=NDArray[Any])


def finite(array: _AnyArray, name: str) -> _AnyArray:
    """Return the array, or raise DataError with its `name` if a value is NaN or infinite."""
    rows = np.atleast_1d(array)
    step = max(1, PIECE // max(1, rows[:1].size))
    pieces = (rows[start : start + step] for start in range(0, len(rows), step))
    bad = sum(int(np.count_nonzero(~np.isfinite(piece))) for piece in pieces)
    if bad:
        raise DataError(f"{name} holds {bad} NaN or infinite value(s): drop or fill them")
    return array


# --- tables of Arrow
def _is_arrow(X: Any) -> bool:
    """Return whether X is a table or a record batch of pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(X, (pyarrow.Table, pyarrow.RecordBatch))


def _arrow_matrix(X: Any) -> Matrix:
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
        _check_column(name, column)
    types = [np.dtype(column.type.to_pandas_dtype()) for column in X.columns]
    matrix = np.empty((X.num_rows, X.num_columns), np.result_type(*types) if types else np.float64)
    for j, column in enumerate(X.columns):
        first = 0
        for chunk in getattr(column, "chunks", [column]):
            matrix[first : first + len(chunk), j] = chunk.to_numpy(zero_copy_only=False)
            first += len(chunk)
    return matrix


def _check_column(name: str, column: Any) -> None:
    types = sys.modules["pyarrow"].types
    if not any(of(column.type) for of in (types.is_integer, types.is_floating, types.is_boolean)):
        raise DataError(f"column {name!r} of X holds {column.type} values: it must contain numbers; encode or drop it")
    if column.null_count:
        raise DataError(f"column {name!r} of X has {column.null_count} null(s): fill them, or drop these rows")
