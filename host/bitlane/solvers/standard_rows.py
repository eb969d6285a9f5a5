"""Rows of floats with standardised columns, in tiles that a cache holds: what exact solvers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.row_table import dense_pieces

Floats = NDArray[np.float64]
Tile = NDArray[np.float32]

TILE_VALUES = 1 << 19  # of a tile: 2 MiB
KEPT_BYTES = 1 << 28  # of a standardised table that is kept instead of made anew in each pass


class ColumnSpread(NamedTuple):
    """Mean and standard deviation of each column, float64 [n]; of a constant column the deviation is 0."""

    mean: Floats
    spread: Floats


def spread_of(X: Any) -> ColumnSpread:
    """Return mean and standard deviation of the columns of X, an array or RowTable [rows, n].

    Sums are those of differences from the first row, so that large offsets cost no digits. A spread below the rounding
    of the values counts as 0.
    """
    first = np.asarray(X[:1], np.float64)[0]
    total, squares = np.zeros(len(first)), np.zeros(len(first))
    for piece in dense_pieces(X):
        away = piece - first
        total += away.sum(axis=0)
        squares += np.square(away).sum(axis=0)
    shift = total / len(X)
    spread = np.sqrt(np.maximum(squares / len(X) - shift**2, 0.0))
    noise = np.finfo(np.float64).eps * np.sqrt(squares / len(X))
    return ColumnSpread(first + shift, np.where(spread > 4 * noise, spread, 0.0))


class StandardRows:
    """The varying columns of a table with mean 0 and standard deviation 1, float32.

    Parameters
    ----------
    X : array or RowTable of integers or floats [rows, n]
    spreads : ColumnSpread
        Of its columns.
    """

    def __init__(self, X: Any, spreads: ColumnSpread):
        self._X = X
        self.active = np.flatnonzero(spreads.spread)
        self.mean, self.spread = spreads.mean[self.active], spreads.spread[self.active]
        self.shape, self.columns = (len(X), len(self.active)), X.shape[1]
        self._kept: list[Tile] | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that a pass reads of the table as it was given."""
        return int(self._X.size * self._X.dtype.itemsize)

    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        """Yield all rows in order: their numbers, and their values float32 [r, m], which must not be changed."""
        step = max(1, TILE_VALUES // max(1, self.shape[1]))
        if self._kept is None and 4 * self.shape[0] * self.shape[1] <= KEPT_BYTES:
            self._kept = [self._tile(first, step) for first in range(0, self.shape[0], step)]
        for number, first in enumerate(range(0, self.shape[0], step)):
            tile = self._tile(first, step) if self._kept is None else self._kept[number]
            yield slice(first, first + len(tile)), tile

    def _tile(self, first: int, step: int) -> Tile:
        rows = np.asarray(self._X[first : first + step])
        rows = rows if len(self.active) == rows.shape[1] else rows[:, self.active]
        if rows.dtype == np.float32 and not self._far:
            tile = rows - self.mean.astype(np.float32)
            tile *= (1.0 / self.spread).astype(np.float32)
            return tile
        return ((rows - self.mean) / self.spread).astype(np.float32)

    @property
    def _far(self) -> bool:
        """Whether a mean is so far from 0 that float32 differences from it lose digits."""
        return bool((np.abs(self.mean) > 64 * self.spread).any())
