"""Values of a table as codes of few bits: each column has levels; a value becomes the number of the nearest one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.levels import optimal_levels

BITS = (2, 4, 8)
KINDS = ("nearest", "optimal", "uniform")
EXACT_VALUES = 1 << 16  # of a column; of more the approximate method takes some ms instead of seconds
ROUNDS = 100  # of moving levels to means, at most

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Codebook:
    """The levels of each column.

    Parameters
    ----------
    levels : float32 [width, 2^bits]
        Finite, not descending. `bits` is 2, 4 or 8.
    """

    levels: Floats

    def __post_init__(self) -> None:
        levels = np.ascontiguousarray(self.levels, np.float32)
        object.__setattr__(self, "levels", levels)
        if levels.ndim != 2 or levels.shape[1] not in [1 << bits for bits in BITS]:
            raise DataError(f"levels must be [width, 4, 16 or 256]; got {list(levels.shape)}")
        if not np.isfinite(levels).all() or (np.diff(levels, axis=1) < 0).any():
            raise DataError("levels must be finite and ascending within a column")

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.levels.shape[0])

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return int(self.levels.shape[1]).bit_length() - 1

    def count_outside(self, rows: Floats) -> int:
        """Return how many values of rows, float32 [n, width], lie outside the outer levels of their columns.

        Raises
        ------
        DataError
            A value is not finite: it has no nearest level.
        """
        if not np.isfinite(rows).all():
            raise DataError(f"a weight is {rows[~np.isfinite(rows)][0]}: it has no nearest level")
        return int(np.count_nonzero((rows < self.levels[:, 0]) | (rows > self.levels[:, -1])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codebook) and self.levels.tobytes() == other.levels.tobytes()

    def __hash__(self) -> int:
        return hash(self.levels.tobytes())


def fit_codebook(rows: Floats, bits: int, kind: str = "nearest", weights: Floats | None = None) -> Codebook:
    """Return levels for the values of each column.

    Parameters
    ----------
    rows : float32 [n, width]
        The values, or a sample of them that has the smallest and the largest one of each column.
    bits : {2, 4, 8}
    kind : {"nearest", "optimal", "uniform"}, default="nearest"
        "optimal": least variance of stochastic rounding (`bitlane.optimal_levels`; ZipML, section 3). "nearest": these
        levels, moved until each is the mean of the values nearest to it (Lloyd, 1982): codes are not drawn, but the
        nearest. The error is a local minimum. "uniform": equal intervals from the smallest to the largest value.
    weights : float32 [n, width], optional
        How much the error of each value counts, at least 0; a column of zeros counts evenly. Not for "uniform".

    Raises
    ------
    DataError
        Another number of bits or kind, no rows, or values that are not finite.
    """
    if bits not in BITS:
        raise DataError(f"bits must be one of {', '.join(map(str, BITS))}; got {bits}")
    if kind not in KINDS:
        raise DataError(f"levels must be one of {', '.join(KINDS)}; got {kind!r}")
    if not len(rows):
        raise DataError("levels need at least one row")
    if not np.isfinite(rows).all():
        raise DataError(f"a weight is {rows[~np.isfinite(rows)][0]}: levels need finite values")
    levels = np.empty((rows.shape[1], 1 << bits), np.float32)
    for column, values in enumerate(rows.T):
        if kind == "uniform":
            levels[column] = np.linspace(float(values.min()), float(values.max()), 1 << bits)
            continue
        heavy = None if weights is None or not weights[:, column].any() else weights[:, column]
        method = "exact" if len(rows) <= EXACT_VALUES else "approximate"
        fitted = optimal_levels(values, (1 << bits) - 1, method, heavy)
        levels[column] = fitted if kind == "optimal" else _moved_to_means(fitted, values, heavy)
    return Codebook(levels)


def _moved_to_means(levels: NDArray[np.float64], values: Floats, weights: Floats | None) -> NDArray[np.float64]:
    """Return levels that are the weighted means of the values nearest to them; a level without values stays."""
    order = np.argsort(values)
    x = values[order].astype(np.float64)
    w = np.ones(len(x)) if weights is None else weights[order].astype(np.float64)
    x, w = x[w > 0], w[w > 0]
    weighted = w * x
    for _ in range(ROUNDS):
        bounds = np.searchsorted(x, (levels[1:] + levels[:-1]) / 2, side="right")
        starts, ends = np.append(0, bounds), np.append(bounds, len(x))
        used = ends > starts
        starts, ends = starts[used], ends[used]
        means = np.add.reduceat(weighted, starts) / np.add.reduceat(w, starts)
        before, levels = levels, levels.copy()
        levels[used] = np.clip(means, x[starts], x[ends - 1])  # equal values keep their bits
        if (before == levels).all():
            break
    return levels
