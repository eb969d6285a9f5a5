"""Weights of rows: what they may be, and the names of their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

LIKELY = ("weight", "weights", "sample_weight", "sample_weights", "row_weight", "importance", "importance_weight")


def check_row_weights(
    numbers: NDArray[Any], what: str, error_of: Callable[[int, str], DataError]
) -> NDArray[np.float32]:
    """Return numbers as weights, float32 [rows].

    Parameters
    ----------
    numbers : array [rows]
    what : str
        Their name, for the error.
    error_of : callable
        Makes the error of a row, such as `RowLocation.error`.

    Raises
    ------
    DataError
        One is below 0, or not a finite float32: the message has file and row.
    """
    with np.errstate(over="ignore"):
        weights: NDArray[np.float32] = np.asarray(numbers, np.float64).astype(np.float32)
    good = np.isfinite(weights) & (weights >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise error_of(row, f"{what} is {numbers[row]:g}: a weight is finite and at least 0")
    return weights


def looks_like_weights(name: str) -> bool:
    """Return whether a column's name suggests that it has the weights of rows."""
    return name.lower() in LIKELY
