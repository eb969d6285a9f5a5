"""What the codecs share: checks of type and length (not of values), group scales, and the sum with the residual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .groups import MIN_SCALE, Groups
from .wire import PayloadError

Values = NDArray[np.float32]


def check_values(values: object, count: int, name: str = "values") -> None:
    """Raise DataError unless `values` is a contiguous float32 [count]."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        actual = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{name} are {actual}; a codec needs a numpy array of float32: convert them first")
    if values.shape != (count,):
        raise DataError(f"{name} have shape {values.shape}; their groups need ({count},)")
    if not values.flags.c_contiguous:
        raise DataError(f"{name} are not contiguous: pass numpy.ascontiguousarray(...)")


def check_input(values: object, residual: object, count: int) -> None:
    """Call `check_values` on the values and, if there is one, on the residual."""
    check_values(values, count)
    if residual is not None:
        check_values(residual, count, "residuals")


def add_residual(values: Values, residual: Values | None) -> Values:
    """Return the values plus the residual of earlier steps; a sum beyond float32 is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values if residual is None else values + residual


def group_scales(values: Values, groups: Groups) -> Values:
    """Return the largest magnitude of each group, float32 [groups]; 0 if it is below `MIN_SCALE`.

    Raises
    ------
    DataError
        If a magnitude is not finite.
    """
    scales = np.maximum.reduceat(np.abs(values), groups.starts[:-1]) if len(groups) else np.zeros(0, np.float32)
    if not np.isfinite(scales).all():
        raise nonfinite_error(int(np.argmin(np.isfinite(scales))))
    return np.where(scales < MIN_SCALE, np.float32(0), scales)


def write_or_add(values: Values, out: Values, add: bool) -> None:
    """Write the values to `out`, or add them to it."""
    if add:
        out += values
    else:
        out[...] = values


def check_body(body: NDArray[np.uint8], size: int) -> None:
    """Raise PayloadError unless `body` is uint8 [size]."""
    if body.dtype != np.uint8 or body.shape != (size,):
        raise PayloadError(
            f"body is {body.dtype} {body.shape}; these groups need uint8 ({size},): it is truncated, or encodes "
            "another vector"
        )


def nonfinite_error(group: int) -> DataError:
    """Return the error for a group whose scale is not finite."""
    return DataError(
        f"group {group} of the values has a NaN or an infinity, or its sums overflow float32; discard the residual"
    )
