"""Checks of single values that users pass: numbers, and integers in a range."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from bitlane.errors import DataError


def is_integer(value: object) -> bool:
    """Return whether `value` is an integer of Python or numpy, but not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return `value` as an int.

    Parameters
    ----------
    name : str
        Name of the value in the error message.
    value : object
    least, most : int
        Allowed range; without `most` there is no upper limit.

    Raises
    ------
    DataError
        `value` is not an integer, or is outside the range.
    """
    if not is_integer(value) or value < least or (most is not None and value > most):
        allowed = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise DataError(f"{name}={value!r}: it must be an integer {allowed}")
    return int(value)


def as_boolean(name: str, value: object) -> bool:
    """Return `value` as a bool, or raise DataError with its `name` if it is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise DataError(f"{name}={value!r}: choose True or False")
    return bool(value)


def as_python(value: Any) -> Any:
    """Return a scalar of numpy as one of Python, such as the values of a grid are; other values as they are."""
    for theirs, ours in ((np.bool_, bool), (np.integer, int), (np.floating, float), (np.str_, str)):
        if isinstance(value, theirs):
            return ours(value)
    return value


def as_number(name: str, value: object) -> float:
    """Return `value` as a float, or raise DataError with its `name` if it is not a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise DataError(f"{name}={value!r}: it must be a finite number")
    return float(value)
