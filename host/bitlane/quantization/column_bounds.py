"""The least value, the largest value and the sum of each column of a piece of rows, and whether all are finite."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.support.c_library import LibraryError, load_library

SOURCE = Path(__file__).with_name("column_bounds.c")
SMALL = 1 << 18  # values of a piece up to which numpy works, so that nothing is built
# Types of values that machine code reads where they are, in the order of `enum value_type`.
VALUE_TYPES = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.float32), np.dtype(np.float64))

Floats = NDArray[np.float64]
_logger = logging.getLogger(__name__)


class ColumnBounds(NamedTuple):
    """Of the columns of some rows.

    Attributes
    ----------
    low, high, total : float64 arrays [n]
        Where a value is not finite, numbers without meaning.
    bad : int
        Values that are not finite.
    """

    low: Floats
    high: Floats
    total: Floats
    bad: int


def column_bounds(piece: NDArray[Any]) -> ColumnBounds:
    """Return the bounds of a piece, integers or floats [rows, n] with a row at least.

    The sum of a column is that of its float64 values in the order of the rows; of a single column it is numpy's.
    """
    bounds = _c_bounds() if piece.size >= SMALL and piece.shape[1] > 1 and piece.dtype in VALUE_TYPES else None
    if bounds is None or not piece.flags.c_contiguous:
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = piece.min(axis=0).astype(np.float64), piece.max(axis=0).astype(np.float64)
            total = piece.sum(axis=0, dtype=np.float64)
        finite = bool(np.isfinite(total).all()) or piece.dtype.kind != "f"
        return ColumnBounds(low, high, total, 0 if finite else int(np.count_nonzero(~np.isfinite(piece))))
    rows, n = piece.shape
    low, high, total = np.empty((3, n))
    kind = VALUE_TYPES.index(piece.dtype)
    bad = bounds(piece.ctypes.data, kind, rows, n, low.ctypes.data, high.ctypes.data, total.ctypes.data)
    return ColumnBounds(low, high, total, bad)


@cache
def _c_bounds() -> Callable[..., int] | None:
    """Return the function in C, built if this machine has not built it yet; None, and a log line, if it cannot."""
    try:
        function: Any = load_library([SOURCE], {}).bitlane_column_bounds
    except LibraryError as error:
        _logger.info("ranges are found by numpy, several times slower than compiled code: %s", error)
        return None
    size, pointer = ctypes.c_ssize_t, ctypes.c_void_p
    function.argtypes = [pointer, size, size, size, pointer, pointer, pointer]
    function.restype = size
    bounds: Callable[..., int] = function
    return bounds
