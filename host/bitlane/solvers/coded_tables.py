"""The codes of a table, those that it stores or those that are made of its floats, and its values again."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CODE_BITS, CodedRows
from bitlane.encoded.table import EncodedTable

from .code_errors import CodeErrors
from .exact_codes import exact_codes
from .problem import Problem
from .solution import Floats

LOOKED_AT = 1_024  # rows
EXACT = 1e-3  # of a unit: what a value is off a code that says all of it, by rounding of floats


class CodedColumns(NamedTuple):
    """Codes that a solver reads instead of a table.

    Attributes
    ----------
    coded : CodedRows, shape (rows, m)
    columns : int array [m]
        Numbers of the columns in the table.
    variances : float64 array [m]
        Mean squares of what codes are off the values, at most, in user units; 0 where they say all of them.
    errors : CodeErrors, or None
        Of some rows; None where codes say all of the values.
    stored_bytes : int
    """

    coded: CodedRows
    columns: NDArray[np.intp]
    variances: Floats
    errors: CodeErrors | None
    stored_bytes: int

    def hide(self, constant: NDArray[np.bool_]) -> bool:
        """Return whether values vary in one of the columns [m] whose codes are constant in the rows with weights."""
        return bool((constant & (self.variances > 0)).any())


def coded_columns(problem: Problem) -> CodedColumns:
    """Return the codes of the table of a problem: as it is, exact if 8 bits can be, or encoded."""
    table = problem.table
    exact = None if isinstance(table, EncodedTable) or problem.bits < CODE_BITS else exact_codes(table)
    if exact is not None:
        n = table.shape[1]
        return CodedColumns(exact, np.arange(n), np.zeros(n), None, exact.codes.nbytes)
    rows = encoded(problem)
    active, variances = rows.column_codes.active, code_variances(problem, rows)
    errors = CodeErrors.of(table, rows) if variances.any() else None
    return CodedColumns(rows.coded, active, variances, errors, rows.stored_bytes)


def encoded(problem: Problem) -> EncodedTable:
    """Return the table of a problem, as it is or encoded. Clipped columns do not warn: solvers read exact rows then."""
    if isinstance(problem.table, EncodedTable):
        return problem.table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EncodedTable.of(problem.table, bits=problem.bits)


def stored_bytes(table: Any) -> int:
    """Return the bytes of a read of all rows."""
    if isinstance(table, EncodedTable | CodedColumns):
        return int(table.stored_bytes)
    return int(table.size * table.dtype.itemsize)


def exact_rows(problem: Problem, rows: EncodedTable) -> StoredColumns | None:
    """Return what the codes of a problem stand for; None where they are all that its table stores."""
    if rows is problem.table and rows.column_codes.bits <= CODE_BITS:
        return None
    return StoredColumns(problem.table, rows.column_codes.active)


def are_clipped(problem: Problem, rows: EncodedTable) -> bool:
    """Return whether some codes are far from the values that they were made of."""
    return rows is not problem.table and bool(rows.clipped.any())


def code_variances(problem: Problem, rows: EncodedTable) -> Floats:
    """Return about the mean square of what codes are off the values, at most, float64 [m], in user units.

    A value is anywhere in its interval. A value that was clipped is off by no more than the farthest one.
    """
    columns = rows.column_codes
    if exact_rows(problem, rows) is None:
        return np.zeros(len(columns.active))
    variances = np.asarray(rows.coded.scale.unit**2 / 12)
    if not are_clipped(problem, rows):
        return variances
    beyond = np.maximum(
        rows.ranges.high - (columns.center + columns.scale), columns.center - columns.scale - rows.ranges.low
    )
    clipped = rows.clipped * np.maximum(beyond, 0.0) ** 2
    return np.asarray(variances + clipped[columns.active])


def hidden_variances(problem: Problem, rows: EncodedTable) -> Floats:
    """Return `code_variances`, but 0 for columns whose codes say all of some rows, such as those of two values."""
    variances, table = code_variances(problem, rows), problem.table
    if rows is table or not variances.any():
        return variances
    some, active = np.arange(0, len(table), max(1, len(table) // LOOKED_AT)), rows.column_codes.active
    off = np.abs(np.asarray(rows[some]) - np.asarray(table[some], np.float64))[:, active]
    exact = (off <= EXACT * rows.coded.scale.unit).all(axis=0) & (rows.clipped[active] == 0)
    return np.where(exact, 0.0, variances)


class StoredColumns:
    """The columns of a table that its codes store, as far as `dense_pieces` reads them.

    Parameters
    ----------
    table : array, RowTable or EncodedTable [rows, n]
    columns : int array [m]
    """

    def __init__(self, table: Any, columns: NDArray[np.intp]):
        self._table, self._columns = table, columns
        self.shape = (len(table), len(columns))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        some = np.asarray(self._table[rows])
        return some if some.shape[1] == self.shape[1] else some[:, self._columns]
