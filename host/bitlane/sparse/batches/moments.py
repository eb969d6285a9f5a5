"""Centre and scale of numeric columns, from the first rows: what standardises their numbers."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.columns import numbers_of

_TAILS = (0.01, 0.99)  # quantiles beyond which numbers count as these: an outlier must not hide all others


def scales_of(
    rows: pa.RecordBatch, names: Sequence[str], location: RowLocation
) -> tuple[tuple[str, float, float], ...]:
    """Return the columns with their centres and scales.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        The first rows, with these columns.
    names : sequence of str
        Numeric columns.
    location : RowLocation
        Of the first row.

    Returns
    -------
    tuple of (str, float, float)
        Name, mean and standard deviation of the numbers between the quantiles 0.01 and 0.99, those beyond counted as
        the quantiles. A column without any spread there has that of all its numbers, else its size, else 1.

    Raises
    ------
    DataError
        A cell is not a number.
    """
    scales = []
    for name in names:
        numbers, missing = numbers_of(rows.column(name), f"numeric column {name!r}", location)
        scales.append((name, *_moments(numbers[~missing & np.isfinite(numbers)])))
    return tuple(scales)


def _moments(numbers: NDArray[np.float64]) -> tuple[float, float]:
    if not len(numbers):
        return 0.0, 1.0
    largest = float(np.abs(numbers).max()) or 1.0
    units = numbers / largest  # squares of these do not overflow
    usual = np.clip(units, *np.quantile(units, _TAILS))
    center = float(usual.mean())
    spreads = (usual.std(), units.std(), abs(center), 1.0)  # the center is 1 at most
    spread = next(each for each in spreads if each > 1e-12 * abs(center))
    return center * largest, float(spread) * largest
