"""Rows with standardised columns, in tiles that a cache holds: what exact solvers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CODE_BITS
from bitlane.encoded.table import EncodedTable
from bitlane.quantization.row_table import dense_pieces

from .reference_pass import Singles

Floats = NDArray[np.float64]

TILE_VALUES = 1 << 18  # of a tile with the numbers of its rows: 1 MiB
NEAR_0 = 2.0  # deviations: sums of float32 values whose mean is nearer to 0 lose no digits when it is taken off later
MODERATE = 2.0**-40, 2.0**40  # deviations whose squares float32 sums
KEPT_BYTES = 1 << 26
LOOKED_AT = 1_024  # rows whose mean and deviation columns are standardised by


class ColumnSpread(NamedTuple):
    """About the mean and the standard deviation of each column, float64 [n]; of a constant column the latter is 0."""

    mean: Floats
    spread: Floats


def spread_of(X: Any, looked_at: int = LOOKED_AT) -> ColumnSpread:
    """Return mean and standard deviation of the columns of about `looked_at` rows of a table [rows, n].

    Columns that are constant in these rows are read as a whole: exactly the constant columns of X have no deviation,
    or those that differ by no more than the rounding of the values.
    """
    some = np.asarray(X[:: -(-len(X) // looked_at)], np.float64)
    mean, spread = _moments([some], len(some), some[0])
    if len(some) < len(X) and (same := np.flatnonzero(spread == 0)).size:
        pieces = (piece[:, same].astype(np.float64) for piece in dense_pieces(X))
        mean[same], spread[same] = _moments(pieces, len(X), some[0, same])
    return ColumnSpread(mean, spread)


def _moments(pieces: Any, rows: int, first: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of rows in pieces; sums are of differences from a row: large offsets cost no digits."""
    total, squares = np.zeros(len(first)), np.zeros(len(first))
    for piece in pieces:
        away = piece - first
        total += away.sum(axis=0)
        squares += np.square(away).sum(axis=0)
    shift = total / rows
    spread = np.sqrt(np.maximum(squares / rows - shift**2, 0.0))
    noise = np.finfo(np.float64).eps * np.sqrt(squares / rows)
    return first + shift, np.where(spread > 4 * noise, spread, 0.0)


class StandardRows:
    """The varying columns of a table, with a mean of about 0 and a standard deviation of about 1.

    Float32 columns that are near to that are read as they are: `shift` and `scale` are applied to sums over rows.

    Parameters
    ----------
    X : array or RowTable of integers or floats, or EncodedTable [rows, n]
    spreads : ColumnSpread
        Of its columns.
    ends : sequence of int, optional
        Where parts of the rows begin and end: 0 and the number of rows by default.
    kept_bytes : int, default=KEPT_BYTES
        Up to which standardised rows are kept instead of made anew in each read.

    Attributes
    ----------
    active : int array [m]
        The varying columns.
    mean, spread : float64 arrays [m]
        Theirs.
    shift, scale : float64 arrays [m]
        A standardised value is ``(value - shift) * scale`` of a value of a tile.
    """

    def __init__(self, X: Any, spreads: ColumnSpread, ends: Sequence[int] | None = None, kept_bytes: int = KEPT_BYTES):
        self._X = X
        self.active, self._means = np.flatnonzero(spreads.spread), spreads.mean
        self.mean, self.spread = spreads.mean[self.active], spreads.spread[self.active]
        self.shape, self.columns = (len(X), len(self.active)), X.shape[1]
        self.ends = [0, len(X)] if ends is None else list(ends)
        away = np.abs(self.mean) / self.spread
        single = X.dtype == np.float32
        moderate = (self.spread > MODERATE[0]) & (self.spread < MODERATE[1])
        plain = single and isinstance(X, np.ndarray) and len(self.active) == self.columns
        self._as_given = bool(plain and moderate.all() and (away <= NEAR_0).all())
        ones = np.ones(len(self.active))
        self.shift, self.scale = (self.mean, 1 / self.spread) if self._as_given else (0 * ones, ones)
        # Float32 differences from a mean that is far from 0 lose digits.
        far = (away > 64) | (self.spread < np.finfo(np.float32).tiny)
        self._kind = np.float32 if single and not far.any() else np.float64
        self._kept: Singles | None = X if self._as_given else None
        self._kept_bytes = kept_bytes
        self._coded = isinstance(X, EncodedTable) and X.column_codes.bits <= CODE_BITS

    def tiles(self, numbers: int) -> Iterator[tuple[int, slice, Singles]]:
        """Yield all rows in order: their part, where they are, and their values float32 [r, m], not to be changed.

        `numbers` is how many numbers more of each row a cache should hold.
        """
        rows, width = self.shape
        step = max(1, TILE_VALUES // (width + 1 + numbers))
        if self._kept is None and 4 * rows * width <= self._kept_bytes:
            self._kept = np.empty((rows, width), np.float32)
            for first in range(0, rows, step):
                self._standardise(slice(first, first + step), self._kept[first : first + step])
        for part, (first, end) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            for start in range(first, end, step):
                span = slice(start, min(start + step, end))
                if self._kept is not None:
                    yield part, span, self._kept[span]
                else:
                    tile = np.empty((span.stop - start, width), np.float32)
                    self._standardise(span, tile)
                    yield part, span, tile

    def in_user_units(self, points: Floats, fit_intercept: bool) -> tuple[Floats, Floats]:
        """Return coefficients [..., n] of the columns of the table and intercepts [...] of points of these rows.

        A point has the coefficients of these m columns and, if there is one, the intercept.
        """
        of_varying = points[..., : self.shape[1]] / self.spread
        coef = np.zeros((*points.shape[:-1], self.columns))
        coef[..., self.active] = of_varying
        return coef, points[..., -1] - of_varying @ self.mean if fit_intercept else np.zeros(points.shape[:-1])

    def in_standard_units(self, coef: Floats, intercept: Floats, fit_intercept: bool) -> Floats:
        """Return the points of which `in_user_units` returns coefficients; constant columns move the intercept."""
        points = coef[..., self.active] * self.spread
        return np.concatenate([points, (intercept + coef @ self._means)[..., None]], -1) if fit_intercept else points

    def _standardise(self, span: slice, tile: Singles) -> None:
        """Write some rows to a tile."""
        if self._coded:
            self._standardise_codes(span, tile)
            return
        rows = np.asarray(self._X[span])
        rows = rows if len(self.active) == rows.shape[1] else rows[:, self.active]
        away = np.subtract(rows, self.mean.astype(self._kind), dtype=self._kind)
        away *= (1.0 / self.spread).astype(self._kind)
        tile[:] = away

    def _standardise_codes(self, span: slice, tile: Singles) -> None:
        """Write some rows of few bits to a tile, without decoding them first."""
        coded, stored = self._X.coded.take_rows(span), self._X.column_codes.active
        which, scale = np.searchsorted(stored, self.active), coded.scale
        unit = scale.unit[which]
        mean = ((self.mean - scale.center[which]) / unit - 0.5).astype(np.float32)
        factor = (unit / self.spread).astype(np.float32)
        for first, codes in coded.blocks():
            some = tile[first : first + len(codes)]
            np.subtract(codes if len(which) == len(stored) else codes[:, which], mean, out=some)
            some *= factor
