"""A table that is stored once with few bits a value."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bitlane.errors import DataError
from bitlane.quantization.ranges import Ranges, feature_ranges
from bitlane.quantization.scaling import Floats
from bitlane.support.processors import processors
from bitlane.support.user_warnings import warn_user

from .block_encoder import encode_block
from .coded_rows import BLOCK_VALUES, CODE_BITS
from .column_codes import ColumnCodes
from .frame import TableFile
from .plane_blocks import PlaneBlocks, block_rows
from .table_codes import TableCodes

NAMED = 10  # columns that a warning names


class EncodedTable:
    """A table of few bits a value, with labels, weights and groups beside it.

    It stands for its decoded values, float64 [rows, n], where a training reads an array: `numpy.asarray` decodes.
    ``table[rows]`` and `take_columns` choose rows and columns and decode nothing.

    Attributes
    ----------
    coded : TableCodes
        The codes of the stored columns, as `CodedRows`: what solvers read.
    y : float64 array [rows] or [rows, targets], or None
    weights : float64 array [rows], or None
    groups : int64 array [rows], or None
    targets : tuple of str
        Names of the labels, if they have names.
    ranges : Ranges
        Of the columns, over the rows that were encoded, before clipping; without a sample.
    clipped : float64 array [n]
        Share of the values of each column, over the rows that were encoded, that were beyond its scale.
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        coded: TableCodes,
        ranges: Ranges,
        clipped: Floats,
        *,
        y: Floats | None = None,
        weights: Floats | None = None,
        groups: NDArray[np.int64] | None = None,
        targets: Sequence[str] = (),
    ):
        self.targets = tuple(targets)
        self.coded, self.ranges, self.clipped = coded, ranges, clipped
        self.y, self.weights, self.groups = y, weights, groups

    @classmethod
    def of(
        cls,
        X: Any,
        y: ArrayLike | None = None,
        bits: int = CODE_BITS,
        *,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        column_codes: ColumnCodes | None = None,
        threads: int | None = None,
    ) -> EncodedTable:
        """Encode a table in memory.

        Parameters
        ----------
        X : array of integers or floats, or RowTable, shape (rows, n)
            As `bitlane.data.arrays.as_table` returns it: finite.
        y : array-like [rows] or [rows, targets], optional
        bits : int, default=8
            Of a code: even, 2 to 16.
        weights : array-like [rows], optional
        groups : array-like of integers [rows], optional
            Such as folds.
        column_codes : ColumnCodes, optional
            Scales, bits and names, such as those of another table; by default `ColumnCodes.of` the ranges of X.
        threads : int, optional
            As many as the machine has by default. The bits do not depend on it.

        Raises
        ------
        DataError
            As from `ColumnCodes.of`, or labels, weights or groups that do not fit.
        """
        rows, n = X.shape
        ranges = feature_ranges(X)
        codes = ColumnCodes.of(ranges, bits) if column_codes is None else column_codes
        if len(codes.scale) != n:
            raise DataError(f"X has {n} columns, but the scales are of {len(codes.scale)}")
        step = block_rows(len(codes.active))
        with ThreadPoolExecutor(threads or processors()) as pool:
            blocks = [
                *pool.map(lambda start: encode_block(X[start : start + step], codes), range(0, rows, step)),
            ]
        shares = np.sum([block.clipped for block in blocks], axis=0) / rows
        warn_of_clipped(shares, codes)
        return cls(
            TableCodes(codes, PlaneBlocks([block.planes for block in blocks], len(codes.active))),
            replace(ranges, sample=ranges.sample[:0], numbers=ranges.numbers[:0]),
            shares,
            y=row_values("y", y, rows, np.float64, 2),
            weights=row_values("weights", weights, rows, np.float64),
            groups=row_values("groups", groups, rows, np.int64),
        )

    @classmethod
    def open(cls, path: str | Path) -> EncodedTable:
        """Return the table in a file, which `save` or ``bitlane encode`` has written.

        Codes are read from the file where they are needed, and each part of it is checked the first time. Labels,
        weights and groups are read now.

        Raises
        ------
        DataError
            The file is missing, truncated, damaged, of a newer version, or no encoded table.
        """
        file = TableFile(Path(path))
        (y, weights, groups), low, high = file.beside(), file.statistics.low, file.statistics.high
        with np.errstate(invalid="ignore"):
            mean = np.clip(file.statistics.total / file.rows, low, high)
        ranges = Ranges(low, high, mean, file.rows, np.empty((0, len(low))), np.empty(0, np.int64))
        return cls(
            TableCodes(file.description.codes, file.planes()),
            ranges,
            file.statistics.clipped / file.rows,
            y=None if not y.shape[1] else y[:, 0] if y.shape[1] == 1 else y,
            weights=weights,
            groups=groups,
            targets=file.description.targets,
        )

    # --- what a training needs of a table ---
    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.coded.shape[0], len(self.column_codes.scale)

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the array that `numpy.asarray` returns; `stored_bytes` are those of the codes."""
        return self.size * self.dtype.itemsize

    @property
    def stored_bytes(self) -> int:
        """Bytes of the codes of all rows that were encoded."""
        return self.coded.planes.nbytes

    def renamed(self, names: Sequence[str] | None) -> EncodedTable:
        """Return the table with other names of its columns."""
        column_codes = replace(self.column_codes, names=None if names is None else tuple(names))
        return self._changed(coded=self.coded.with_columns(column_codes))

    @property
    def column_codes(self) -> ColumnCodes:
        """Centers, scales, bits and names of the columns."""
        return self.coded.column_codes

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns; empty if they have none."""
        return self.column_codes.names or ()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[Any]) -> EncodedTable:
        """Return some rows, by a slice, numbers or a mask, with what lies beside them."""
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        beside: list[Any] = [None if each is None else each[rows] for each in (self.y, self.weights, self.groups)]
        y, weights, groups = beside
        return self._changed(coded=self.coded.take_rows(rows), y=y, weights=weights, groups=groups)

    def take_columns(self, which: Sequence[int] | Sequence[str] | NDArray[np.integer]) -> EncodedTable:
        """Return some columns, by numbers or names, in this order, with what lies beside the table.

        Raises
        ------
        DataError
            A column that is not there, or none that varies.
        """
        names, n = self.column_names, self.shape[1]
        missing = [each for each in which if isinstance(each, str) and each not in names]
        if missing:
            raise DataError(f"no column {missing[0]!r}: the table has {', '.join(names[:NAMED]) or 'no names'}")
        numbers = np.array([names.index(each) if isinstance(each, str) else int(each) for each in which], np.intp)
        if ((numbers < -n) | (numbers >= n)).any() or not self.column_codes.scale[numbers].any():
            raise DataError(f"columns={list(which)[:NAMED]}: choose some of {n} columns, at least one that varies")
        numbers %= n
        low, high, mean = (bound[numbers] for bound in (self.ranges.low, self.ranges.high, self.ranges.mean))
        ranges = replace(self.ranges, low=low, high=high, mean=mean, sample=np.empty((0, len(numbers))))
        return self._changed(coded=self.coded.take_columns(numbers), ranges=ranges, clipped=self.clipped[numbers])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        values = np.empty(self.shape, dtype or np.float64)
        values[:] = self.column_codes.center
        self.coded.decode(values)
        return values

    def __matmul__(self, matrix: Floats) -> Floats:
        """Return the product of the decoded values with a matrix [n, k]."""
        step = max(1, BLOCK_VALUES // self.shape[1])
        pieces = [np.asarray(self[start : start + step]) @ matrix for start in range(0, len(self), step)]
        return np.concatenate(pieces) if pieces else np.zeros((0, *matrix.shape[1:]))

    def _changed(self, **changes: Any) -> EncodedTable:
        return EncodedTable(**{**vars(self), **changes})

    @property
    def fingerprint(self) -> str:
        """A hash of the scales, the codes and the choice of rows and columns, in hexadecimal digits."""
        return self.coded.fingerprint


def warn_of_clipped(shares: Floats, column_codes: ColumnCodes) -> None:
    """Warn of columns with values beyond their scales, of which `shares` [n] are clipped."""
    clipped = np.flatnonzero(shares).tolist()
    if clipped:
        shown = [
            str(column) if column_codes.names is None else column_codes.names[column] for column in clipped[:NAMED]
        ]
        more = ", ..." if len(clipped) > NAMED else ""
        warn_user(
            f"{len(clipped)} column(s) hold values beyond their scales, which are clipped: {', '.join(shown)}{more}"
        )


def row_values(name: str, given: ArrayLike | None, rows: int, dtype: DTypeLike, dimensions: int = 1) -> Any:
    """Return what lies beside a table of so many rows, as an array of a type, or None; DataError if it does not fit."""
    if given is None:
        return None
    array = np.asarray(given)
    if array.ndim not in range(1, dimensions + 1) or len(array) != rows:
        raise DataError(f"{name} has shape {array.shape}, but the table has {rows} rows")
    try:
        typed = array.astype(dtype)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds {array.dtype} values: numbers are needed") from None
    if not (np.isfinite(typed).all() and (typed == array).all()):
        raise DataError(f"{name} holds values that are not finite, or no {np.dtype(dtype)}: change or drop them")
    return typed
