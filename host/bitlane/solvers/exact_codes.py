"""Codes of 8 bits that say all of the values: of integers, pixels, and other values at equal distances."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.encoded.coded_rows import CodedArray, Codes, CodeScale
from bitlane.quantization.ranges import feature_ranges
from bitlane.support.processors import processors

from .solution import Floats

LEVELS = 256  # of a code
MOST_LEVELS = 1 << 24  # of a table, whose columns may be anywhere
SAMPLE_VALUES = 1 << 16
PIECE = 1 << 16  # values that are converted at a time: what a cache holds
OFF = 2.0**-10  # of a step: what rounding of float32 may leave between a value and its level


def exact_codes(X: Any) -> CodedArray | None:
    """Return codes of all columns of an array or RowTable [rows, n]; None if there are none that are exact.

    The values of the table must lie at multiples of one step, to `OFF` of it, and those of each column within
    `LEVELS` of them. Most other tables are known by a few rows, without a read.
    """
    unit = _step(X)
    if not unit:
        return None
    if X.dtype.itemsize == 1:
        low = np.full(X.shape[1], float(np.iinfo(X.dtype).min))
    else:
        ranges = feature_ranges(X)
        low = ranges.low
        if (ranges.high - low > (LEVELS - 1 + OFF) * unit).any():
            return None
    middle, codes, step = low + LEVELS / 2 * unit, np.empty(X.shape, np.int8), max(1, PIECE // X.shape[1])
    convert = _from_floats if np.issubdtype(X.dtype, np.floating) else _from_integers
    with ThreadPoolExecutor(processors()) as pool:
        pieces = (slice(first, first + step) for first in range(0, len(X), step))
        if not all(pool.map(lambda rows: convert(np.asarray(X[rows]), middle, unit, codes[rows]), pieces)):
            return None
    return CodedArray(codes, CodeScale(middle - unit / 2, np.full(X.shape[1], unit)))


def _step(X: Any) -> float:
    """Return the step that divides the distances of the values of some rows; 0 if there is none."""
    if np.issubdtype(X.dtype, np.integer):
        return 1.0
    some = np.asarray(X[:: -(-len(X) * X.shape[1] // SAMPLE_VALUES)])
    values = np.unique(some).astype(np.float64)
    if len(values) < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        span = values[-1] - values[0]
        levels = np.rint(span / np.diff(values).min())
        if not levels < MOST_LEVELS:
            return 0.0
        places = (values - values[0]) / (span / levels)  # near values alone would say less of the step
    return float(span / levels) if (np.abs(places - np.rint(places)) <= OFF).all() else 0.0


def _from_integers(values: NDArray[Any], middle: Floats, unit: float, codes: Codes) -> bool:
    """Write the codes of rows, modulo 256, and return True."""
    np.subtract(values.astype(np.uint8, copy=False), middle.astype(np.int64).astype(np.uint8), out=codes.view(np.uint8))
    return True


def _from_floats(values: NDArray[Any], middle: Floats, unit: float, codes: Codes) -> bool:
    """Write the codes of rows, and return whether the values are where these say."""
    kind = np.float32 if values.dtype == np.float32 else np.float64
    places = values - middle.astype(kind)
    places *= kind(1 / unit)
    levels = np.rint(places)
    np.copyto(codes, levels, casting="unsafe")
    places -= levels
    return bool(max(places.max(initial=0.0), -places.min(initial=0.0)) <= OFF)
