"""What users call X, as batches: sparse and dense arrays, tables with named columns, and batches themselves."""

# The tables of pandas, polars and Arrow have no types: they are Any from `is_table` on.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import Schema
from bitlane.support.column_names import check_names, column_names
from bitlane.support.optional import require_extra
from bitlane.support.scalars import as_integer, is_integer

from .validation import as_numbers

MOST_FIELDS = 1 << 16
OWN_FIELDS = 100  # columns of an array that get a field each, where nobody says which field they are in


class SparseMatrix(Protocol):
    """What is used of a sparse matrix of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        ...

    def toarray(self) -> NDArray[Any]:
        """Return the matrix as an array."""
        ...

    def tocsr(self) -> Any:
        """Return the matrix in compressed sparse rows."""
        ...


@dataclass(frozen=True)
class RowEncoder:
    """How X becomes batches: fixed by the first X.

    Attributes
    ----------
    kind : {"batch", "array", "table"}
    columns : int or None
        Columns of X; None for batches.
    fields : int
        Number of fields.
    field_of : uint16 [columns] or None
        Field of each column of an array.
    schema : Schema or None
        Of a table.
    names : object array [columns] or None
        Column names.
    """

    kind: str
    columns: int | None
    fields: int
    field_of: NDArray[np.uint16] | None = None
    schema: Schema | None = None
    names: NDArray[Any] | None = None

    def encode(self, X: object, estimator: str, labels: NDArray[np.float32] | None = None) -> Batch:
        """Return X as a batch.

        Parameters
        ----------
        X : Batch, sparse matrix, array-like or table
            Of the kind of the first X; an array in place of a table has its columns.
        estimator : str
            For the errors.
        labels : float32 [rows], optional
            Without them, those of a batch, and nan for all others.

        Raises
        ------
        DataError
            X cannot be used, or has other columns than the first X.
        """
        if (self.kind == "batch") != isinstance(X, Batch):
            wanted = "batches" if self.kind == "batch" else "arrays or tables"
            raise DataError(f"X is a {type(X).__name__}, but this {estimator} was fitted on {wanted}")
        if isinstance(X, Batch):
            return X if labels is None else replace(X, labels=labels)
        check_names(X, self.names)
        if self.schema is not None:
            batch = _of_table(X if is_table(X) else self._named(X), self.schema)
        else:
            batch = self._of_array(X, estimator)
        if labels is None:
            labels = np.full(batch.rows, np.nan, np.float32)
        return Batch(batch.keys, batch.fields, batch.values, batch.offsets, labels)

    def _of_array(self, X: object, estimator: str) -> Batch:
        rows, columns, (index, values, offsets) = _sparse_rows(X) if _is_sparse(X) else _dense_rows(X)
        if columns != self.columns:
            raise DataError(f"X has {columns} features, but {estimator} is expecting {self.columns} features as input")
        fields = np.zeros(len(index), np.uint16) if self.field_of is None else self.field_of[index]
        labels = np.full(rows, np.nan, np.float32)
        return Batch(index.astype(np.uint64), fields, values, offsets, labels)

    def _named(self, X: object) -> Any:
        """Return an array as a table with the columns of the first X."""
        pa = require_extra("pyarrow", "encoding a table", "'bitlane[sparse]'")
        array = X.toarray() if _is_sparse(X) else np.asarray(X)
        _check_shape(array)
        if array.shape[1] != self.columns:
            raise DataError(f"X has {array.shape[1]} features, but the model is expecting {self.columns} features")
        assert self.names is not None
        return pa.table({name: _column(pa, array[:, j], name) for j, name in enumerate(self.names)})


def find_encoder(
    X: object, fields: ArrayLike | None, needs_fields: bool, counted: NDArray[np.bool_] | None = None
) -> RowEncoder:
    """Return the encoder of the first X.

    Parameters
    ----------
    X : Batch, sparse matrix, array-like or table
    fields : None, int or array-like of int [columns]
        The estimator's parameter: field of each column of an array, or the number of fields of batches.
    needs_fields : bool
        Whether the model uses fields.
    counted : bool [rows], optional
        Rows whose numbers of a table count for centres and scales. Default: all.

    Raises
    ------
    DataError
        X or `fields` cannot be used.
    """
    if isinstance(X, Batch):
        most = int(X.fields.max()) + 1 if X.nnz else 1
        count = most if fields is None else as_integer("fields", fields, 1, MOST_FIELDS)
        return RowEncoder("batch", None, count)
    if is_table(X):
        if fields is not None:
            raise DataError("fields applies to arrays and batches only: each column of a table is a field")
        schema = _schema_of(X, counted)
        return RowEncoder("table", len(schema.field_names), len(schema.field_names), None, schema, column_names(X))
    columns = X.shape[1] if _is_sparse(X) else _check_shape(np.asarray(X))
    field_of = _field_of(fields, columns, needs_fields)
    count = 1 if field_of is None else int(field_of.max()) + 1
    return RowEncoder("array", columns, count, field_of, None, column_names(X))


def is_table(X: object) -> TypeGuard[Any]:
    """Return whether X is a table with named columns: of pandas, polars or Arrow."""
    if hasattr(X, "column_names") and hasattr(X, "schema"):
        return True
    return column_names(X) is not None and (hasattr(X, "dtypes") or hasattr(X, "to_arrow"))


def rows_of(X: object) -> int:
    """Return the number of rows of X.

    Raises
    ------
    DataError
        X has no rows or columns, or not two dimensions.
    """
    if isinstance(X, Batch):
        rows = X.rows
    elif _is_sparse(X):
        rows = X.shape[0]
    elif is_table(X):
        rows = X.num_rows if hasattr(X, "num_rows") else len(X)
    else:
        array = np.asarray(X)
        _check_shape(array)
        rows = len(array)
    return int(rows)


def _field_of(fields: ArrayLike | None, columns: int, needs_fields: bool) -> NDArray[np.uint16] | None:
    if fields is None:
        if not needs_fields:
            return None
        if columns > OWN_FIELDS:
            raise DataError(f"X has {columns} columns: give the field of each, fields=[0, 0, 1, ...]")
        return np.arange(columns, dtype=np.uint16)
    if is_integer(fields):
        raise DataError(f"fields={fields}: give the field of each of the {columns} columns, fields=[0, 0, 1, ...]")
    field_of = np.asarray(fields)
    if field_of.shape != (columns,) or field_of.dtype.kind not in "iu":
        raise DataError(f"fields must be {columns} integers, one a column; got {field_of.dtype} {list(field_of.shape)}")
    if field_of.min() < 0 or field_of.max() >= MOST_FIELDS:
        raise DataError(f"fields must be from 0 to {MOST_FIELDS - 1}; got {field_of.min()} to {field_of.max()}")
    return field_of.astype(np.uint16)


def _is_sparse(X: object) -> TypeGuard[SparseMatrix]:
    return hasattr(X, "tocsr")


def _check_shape(array: NDArray[Any]) -> int:
    """Return the number of columns."""
    if array.ndim != 2:
        raise DataError(
            f"X has {array.ndim} dimension(s): it must have two, rows and features. Reshape your data:"
            " X.reshape(1, -1) is one row, X.reshape(-1, 1) one feature"
        )
    if array.shape[1] == 0:
        raise DataError(
            f"X has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required: there is nothing to learn from"
        )
    return int(array.shape[1])


def _sparse_rows(X: SparseMatrix) -> tuple[int, int, tuple[Any, Any, Any]]:
    """Return rows, columns, and column, value and offsets of what is not 0, in order."""
    matrix = X.tocsr()
    if matrix.dtype.kind not in "biuf" or not matrix.has_canonical_format:
        as_numbers(matrix.data, "X")
        matrix = matrix.copy()
        matrix.sum_duplicates()
    values, index, offsets = as_numbers(matrix.data, "X"), matrix.indices, matrix.indptr.astype(np.int64)
    if not values.all():
        nonzero = values != 0
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(nonzero)])
        values, index, offsets = values[nonzero], index[nonzero], before[offsets]
    return matrix.shape[0], matrix.shape[1], (index, values, offsets)


def _dense_rows(X: object) -> tuple[int, int, tuple[Any, Any, Any]]:
    array = np.asarray(X)
    _check_shape(array)
    numbers = as_numbers(array, "X")
    row, index = np.nonzero(numbers)
    counts = np.bincount(row, minlength=len(numbers))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return len(numbers), numbers.shape[1], (index, numbers[row, index], offsets)


# --- tables
def _arrow(X: Any) -> Any:
    """Return a table as a `pyarrow.RecordBatch`, without the index of pandas."""
    pa = require_extra("pyarrow", "encoding a table", "'bitlane[sparse]'")
    try:
        if hasattr(X, "num_rows"):
            table = X
        elif hasattr(X, "to_arrow"):
            table = X.to_arrow()
        else:
            return pa.RecordBatch.from_pandas(X, preserve_index=False)
        if isinstance(table, pa.RecordBatch):
            return table
        columns = [pa.concat_arrays(column.unify_dictionaries().chunks) for column in _chunked(pa, table)]
        return pa.RecordBatch.from_arrays(columns, names=table.column_names)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"X has a column that cannot be used: {' '.join(str(error).split())}") from error


def _chunked(pa: Any, table: Any) -> list[Any]:
    """Return the columns, each with one chunk at least."""
    return [column if column.num_chunks else pa.chunked_array([pa.array([], column.type)]) for column in table.columns]


def _schema_of(X: object, counted: NDArray[np.bool_] | None) -> Schema:
    from bitlane.sparse.batches.checks import RowLocation
    from bitlane.sparse.batches.columns import default_schema
    from bitlane.sparse.batches.moments import scales_of

    rows = _arrow(X)
    if rows.num_columns == 0:
        raise DataError("X has 0 feature(s): a minimum of 1 is required: there is nothing to learn from")
    schema = default_schema(rows.schema, "X", label=_label(rows.schema.names), labelled=False)
    if not isinstance(schema, Schema):
        raise DataError("X has a column of lists, 'keys': pass a Batch instead")
    if counted is not None:
        rows = rows.filter(counted)
    return replace(schema, scales=scales_of(rows, schema.numeric, RowLocation("X", first=0)))


def _of_table(X: Any, schema: Schema) -> Batch:
    from bitlane.sparse.batches.checks import RowLocation
    from bitlane.sparse.batches.columns import batch_of_columns

    return batch_of_columns(_arrow(X), schema, location=RowLocation("X", first=0), labelled=False)


def _label(names: list[str]) -> str:
    """Return a name that no column has, for the label column that a schema must name."""
    name = "label"
    while name in names:
        name += "_"
    return name


def _column(pa: Any, values: NDArray[Any], name: str) -> Any:
    try:
        return pa.array(values.tolist() if values.dtype == object else values, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"column {name!r} of X cannot be used: {' '.join(str(error).split())}") from error
