"""What is measured on the first rows: centre and scale of numeric columns, and edges of buckets."""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.columns import numbers_of
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.transforms import changed

_TAILS = (0.01, 0.99)  # quantiles beyond which numbers count as these: an outlier must not hide all others
LONG_TAIL = 10.0  # spreads from the centre, from which on a column is said to have a long tail
_UNLIKE = 10.0  # times the spread that declared moments may differ by

Floats = NDArray[np.float64]


def scales_of(
    rows: pa.RecordBatch, names: Sequence[str], location: RowLocation, schema: Schema | None = None
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
    schema : Schema, optional
        Its transforms come first.

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
    schema = schema or Schema()
    return tuple((name, *_moments(_transformed(rows, name, schema, location))) for name in names)


def edges_of(rows: pa.RecordBatch, name: str, count: int, location: RowLocation, schema: Schema) -> tuple[float, ...]:
    """Return the edges of buckets with about as many of the first rows each.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
    name : str
        Of the column.
    count : int
        Buckets; there are fewer where numbers are equal.
    location : RowLocation
        Of the first row.
    schema : Schema

    Returns
    -------
    tuple of float
        Quantiles of the numbers as float32, ascending. None is as small as the smallest number.
    """
    numbers = _finite(rows, name, schema, location).astype(np.float32)
    if not len(numbers):
        return ()
    edges = np.unique(np.quantile(numbers, np.arange(1, count) / count).astype(np.float32))
    return tuple(edges[edges > numbers.min()].tolist())


def unlike(rows: pa.RecordBatch, schema: Schema, location: RowLocation) -> list[str]:
    """Return a line for each column whose centre and scale in the schema are not those of the first rows."""
    lines = []
    found = scales_of(rows, [name for name, *_ in schema.scales], location, schema)
    for (name, center, scale), (_, here, spread) in zip(schema.scales, found, strict=True):
        if abs(here - center) > _UNLIKE * max(scale, spread) or not 1 / _UNLIKE < spread / scale < _UNLIKE:
            lines.append(
                f"numeric column {name!r} has centre {center:.3g} and scale {scale:.3g} in the schema, but its first "
                f"rows have {here:.3g} and {spread:.3g} after its transforms: standard = true takes these"
            )
    return lines


def long_tails(rows: pa.RecordBatch, names: Sequence[str], location: RowLocation, schema: Schema) -> dict[str, float]:
    """Return the columns whose numbers have a long tail that ``log1p`` shortens, and how many spreads it is long."""
    found = {}
    for name in names:
        numbers = _transformed(rows, name, schema, location)
        before, after = _longest(numbers), _longest(changed(numbers, {"log1p": ()}))
        if before > LONG_TAIL and after < before / 2:
            found[name] = before
    return found


def _longest(numbers: Floats) -> float:
    if not len(numbers):
        return 0.0
    center, scale = _moments(numbers)
    return float(np.abs((numbers - center) / scale).max())


def _finite(rows: pa.RecordBatch, name: str, schema: Schema, location: RowLocation) -> Floats:
    numbers, missing = numbers_of(rows.column(name), f"numeric column {name!r}", location, schema.decimal)
    return numbers[~missing & np.isfinite(numbers)]


def _transformed(rows: pa.RecordBatch, name: str, schema: Schema, location: RowLocation) -> Floats:
    return changed(_finite(rows, name, schema, location), schema.transforms_of(name))


def _moments(numbers: Floats) -> tuple[float, float]:
    if not len(numbers):
        return 0.0, 1.0
    largest = float(np.abs(numbers).max()) or 1.0
    units = numbers / largest  # squares of these do not overflow
    usual = np.clip(units, *np.quantile(units, _TAILS))
    center = float(usual.mean())
    spreads = (usual.std(), units.std(), abs(center), 1.0)  # the center is 1 at most
    spread = next(each for each in spreads if each > 1e-12 * abs(center))
    return center * largest, float(spread) * largest
