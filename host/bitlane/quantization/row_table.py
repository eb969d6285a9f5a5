"""Tables that are not arrays in memory: their rows become arrays in pieces, where a training reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

PIECE = 1 << 20  # values of a piece
COPIED = 1 << 26  # bytes up to which an array is copied into another order


class RowTable:
    """A sparse matrix or an array, of which rows are read when they are needed.

    It stands for an array [rows, n] where a training reads one: ``table[rows]``, with a slice or an array of row
    numbers, is a RowTable again and reads nothing. `numpy.asarray` returns the rows as an array in C order.

    Parameters
    ----------
    source : sparse matrix or array of scipy in CSR form, or ndarray, shape (rows, n)
    dtype : dtype
        Type of the values that are read.
    rows : range or int array, optional
        Numbers of the rows in `source`; all by default.
    """

    def __init__(self, source: Any, dtype: np.dtype[Any], rows: range | NDArray[np.intp] | None = None):
        self.dtype = dtype
        self._source = source
        self._rows = range(source.shape[0]) if rows is None else rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self._rows), int(self._source.shape[1])

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the array that `numpy.asarray` returns."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> RowTable:
        chosen = self._rows[rows] if isinstance(rows, slice) else row_numbers(self._rows)[rows]
        return RowTable(self._source, self.dtype, chosen)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        rows = self._selected()
        dense = rows.toarray() if hasattr(rows, "toarray") else rows
        array = np.asarray(dense, dtype or self.dtype, order="C")
        return array.copy() if copy else array  # `copy=None` is an error of numpy 1

    def __matmul__(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a matrix [n, m], without a dense copy of a sparse table."""
        if hasattr(self._source, "toarray"):
            return np.asarray(self._selected() @ matrix)
        return np.concatenate([piece @ matrix for piece in dense_pieces(self)])

    def _selected(self) -> Any:
        rows = self._rows
        if not isinstance(rows, range):
            return self._source[rows]
        return self._source if len(rows) == self._source.shape[0] else self._source[rows.start : rows.stop : rows.step]


def row_numbers(rows: range | NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """Return numbers of rows as an array; numpy itself takes a hundred times as long for a range."""
    return np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else np.asarray(rows, np.intp)


def reordered(X: Any, order: NDArray[np.intp]) -> Any:
    """Return the rows of an array or RowTable in another order: a large array as a RowTable, which is no copy."""
    return RowTable(X, X.dtype, order) if isinstance(X, np.ndarray) and X.nbytes > COPIED else X[order]


def dense_rows(X: Any) -> NDArray[Any]:
    """Return an array, or the rows of a RowTable as an array that is filled piece by piece."""
    return X if isinstance(X, np.ndarray) else np.concatenate([*dense_pieces(X)])


def dense_pieces(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the rows of an array or RowTable [rows, n], n at least 1, as arrays of about `PIECE` values; at least one.

    An array yields views.
    """
    step = piece_rows(X.shape[1])
    for start in range(0, max(1, len(X)), step):
        yield np.asarray(X[start : start + step])


def piece_rows(columns: int) -> int:
    """Return the rows of a piece of a table with so many columns, at least 1."""
    return max(1, PIECE // columns)
