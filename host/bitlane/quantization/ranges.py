"""Ranges and means of the columns of a table, and a sample of its rows: what its scaling depends on.

The sample makes quantiles and the most frequent values known without a second pass. A row is in it by its number alone:
rows whose number, times the golden ratio, has a fraction below ``2**-j``, with the least j that leaves few enough. So
its rows lie almost evenly in the data, and pieces give the sample of the data that they make up.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.processors import processors

from .column_bounds import ColumnBounds, column_bounds
from .row_table import PIECE, piece_rows

Floats = NDArray[np.float64]

SAMPLE_VALUES = 1 << 16  # of a sample, where its rows are neither too few nor more than needed
SAMPLE_ROWS = (256, 2048)  # least and most rows of a sample: at least half of them, once there are so many
GOLDEN = 0x9E3779B1  # 2**32 divided by the golden ratio
WORD_BITS = 32


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least value, the largest value and the mean of each column, over the rows seen so far.

    Attributes
    ----------
    low, high, mean : float64 arrays [n]
        In user units. A mean whose sum overflows is that of a bound, or NaN.
    rows : int
    sample : array [k, n]
        Some of the rows: all of them if they are few. Of labels [0, targets].
    numbers : int64 array [k]
        Numbers of the rows of the sample among those seen so far.
    """

    low: Floats
    high: Floats
    mean: Floats
    rows: int
    sample: NDArray[Any]
    numbers: NDArray[np.int64]

    def merged(self, other: Ranges) -> Ranges:
        """Return the ranges over the rows of both; those of `other` are numbered from where these end."""
        rows = self.rows + other.rows
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        mean = self.mean * (self.rows / rows) + other.mean * (other.rows / rows)
        sample = np.concatenate([self.sample, other.sample])
        numbers = np.concatenate([self.numbers, other.numbers])
        some = _in_sample(numbers, rows, len(low))
        return Ranges(low, high, np.clip(mean, low, high), rows, sample[some], numbers[some])


@dataclass(frozen=True, eq=False)
class TableRanges:
    """The ranges of the features and the labels of a table.

    Attributes
    ----------
    features : Ranges
        Of n columns.
    labels : Ranges
        Of the targets.
    """

    features: Ranges
    labels: Ranges

    @classmethod
    def of(cls, X: Any, y: NDArray[Any], first: int = 0) -> TableRanges:
        """Return the ranges of X [rows, n], an array or a RowTable, and y [rows, targets], numbered from `first` on."""
        return cls(feature_ranges(X, first), label_ranges(y))

    def merged(self, other: TableRanges) -> TableRanges:
        """Return the ranges over the rows of both."""
        return TableRanges(self.features.merged(other.features), self.labels.merged(other.labels))


def feature_ranges(X: Any, first: int = 0) -> Ranges:
    """Return the ranges of the columns of X, and a sample of its rows.

    Parameters
    ----------
    X : array or RowTable of integers or floats [rows, n]
    first : int, default=0
        Number of its first row: how many rows were seen before.
    """
    low, high, total = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf), np.zeros(X.shape[1])
    ends = [*range(first, first + len(X), PIECE), first + len(X)]
    pieces = (np.arange(start, stop, dtype=np.int64) for start, stop in pairwise(ends))
    numbers = np.concatenate([piece[_in_sample(piece, ends[-1], X.shape[1])] for piece in pieces])
    with np.errstate(over="ignore", invalid="ignore"):
        for bounds in _bounds_of_pieces(X):
            low, high = np.minimum(low, bounds.low), np.maximum(high, bounds.high)
            total += bounds.total
        mean = np.clip(total / len(X), low, high)
    return Ranges(low, high, mean, len(X), np.asarray(X[numbers - first]), numbers)


def _bounds_of_pieces(X: Any) -> Iterator[ColumnBounds]:
    """Yield the bounds of the pieces of `dense_pieces` in order, found by several threads."""
    step = piece_rows(X.shape[1])
    starts = range(0, max(1, len(X)), step)
    if len(starts) == 1:
        yield column_bounds(np.asarray(X))
        return
    with ThreadPoolExecutor(min(processors(), len(starts))) as pool:
        yield from pool.map(lambda start: column_bounds(np.asarray(X[start : start + step])), starts)


def label_ranges(y: NDArray[Any]) -> Ranges:
    """Return the ranges of labels [rows, targets]. Those of a target do not depend on the other targets."""
    low, high = y.min(axis=0).astype(np.float64), y.max(axis=0).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.array([column.mean(dtype=np.float64) for column in np.ascontiguousarray(y.T)])
    return Ranges(low, high, np.clip(mean, low, high), len(y), y[:0], np.empty(0, np.int64))


def _in_sample(numbers: NDArray[np.int64], rows: int, n: int) -> NDArray[np.bool_]:
    """Return which rows are in the sample of a table with this number of rows and n columns."""
    least, most = SAMPLE_ROWS
    wanted = min(max(SAMPLE_VALUES // n, least), most)
    halvings = max(0, (-(-rows // wanted) - 1).bit_length())
    words = numbers.astype(np.uint32) * np.uint32(GOLDEN)  # modulo 2**32
    chosen: NDArray[np.bool_] = words <= np.uint32((1 << WORD_BITS - halvings) - 1)
    return chosen
