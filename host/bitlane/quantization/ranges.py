"""Ranges and means of the columns of a table: what its scaling depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .row_table import dense_pieces

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least value, the largest value and the mean of each column, over the rows seen so far.

    Attributes
    ----------
    low, high, mean : float64 arrays [n]
        In user units. A mean whose sum overflows is that of a bound, or NaN.
    rows : int
    """

    low: Floats
    high: Floats
    mean: Floats
    rows: int

    def merged(self, other: Ranges) -> Ranges:
        """Return the ranges over the rows of both."""
        rows = self.rows + other.rows
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        mean = self.mean * (self.rows / rows) + other.mean * (other.rows / rows)
        return Ranges(low, high, np.clip(mean, low, high), rows)


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
    def of(cls, X: Any, y: NDArray[Any]) -> TableRanges:
        """Return the ranges of X [rows, n], an array or a RowTable, and y [rows, targets]."""
        return cls(feature_ranges(X), label_ranges(y))

    def merged(self, other: TableRanges) -> TableRanges:
        """Return the ranges over the rows of both."""
        return TableRanges(self.features.merged(other.features), self.labels.merged(other.labels))


def feature_ranges(X: Any) -> Ranges:
    """Return the ranges of the columns of X [rows, n], an array or a RowTable of integers or floats."""
    low, high, total = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf), np.zeros(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for piece in dense_pieces(X):
            low, high = np.minimum(low, piece.min(axis=0)), np.maximum(high, piece.max(axis=0))
            total += piece.sum(axis=0, dtype=np.float64)
        return Ranges(low, high, np.clip(total / len(X), low, high), len(X))


def label_ranges(y: NDArray[Any]) -> Ranges:
    """Return the ranges of labels [rows, targets]. Those of a target do not depend on the other targets."""
    low, high = y.min(axis=0).astype(np.float64), y.max(axis=0).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.array([column.mean(dtype=np.float64) for column in np.ascontiguousarray(y.T)])
    return Ranges(low, high, np.clip(mean, low, high), len(y))
