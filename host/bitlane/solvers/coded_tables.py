"""The codes of a table that a solver is given as floats, and its values again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.table import EncodedTable

from .problem import Problem
from .solution import Floats


def encoded(problem: Problem) -> EncodedTable:
    """Return the table of a problem, as it is or encoded. Clipped columns do not warn: solvers read exact rows then."""
    if isinstance(problem.table, EncodedTable):
        return problem.table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EncodedTable.of(problem.table, bits=problem.bits)


def stored_bytes(table: Any) -> int:
    """Return the bytes of a read of all rows."""
    return int(table.stored_bytes if isinstance(table, EncodedTable) else table.size * table.dtype.itemsize)


def code_variances(rows: EncodedTable) -> Floats:
    """Return about the mean square of what codes are off the values, at most, float64 [m], in user units.

    A value is anywhere in its interval. A value that was clipped is off by no more than the farthest one.
    """
    columns = rows.column_codes
    beyond = np.maximum(
        rows.ranges.high - (columns.center + columns.scale), columns.center - columns.scale - rows.ranges.low
    )
    clipped = rows.clipped * np.maximum(beyond, 0.0) ** 2
    return np.asarray(rows.coded.scale.unit**2 / 12 + clipped[columns.active])


class StoredColumns:
    """The columns of a table that its codes store, as far as `dense_pieces` reads them.

    Parameters
    ----------
    table : array or RowTable [rows, n]
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
