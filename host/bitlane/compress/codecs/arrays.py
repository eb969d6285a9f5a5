"""What codecs take, checked: cheap looks at an array's type and length, and none at its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .groups import TINY, Groups
from .wire import PayloadError

Values = NDArray[np.float32]


def check_values(values: Any, count: int, name: str = "values") -> None:
    """DataError unless `values` is a contiguous float32 [count]."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        what = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{name} are {what}, and a codec takes a numpy array of float32: convert them first")
    if values.shape != (count,):
        raise DataError(f"{name} have the shape {values.shape}, and their groups ({count},)")
    if not values.flags.c_contiguous:
        raise DataError(f"{name} are not contiguous: give numpy.ascontiguousarray of them")


def check_input(values: Any, residual: Any, count: int) -> None:
    """`check_values` of what is coded, and of the residual where there is one."""
    check_values(values, count)
    if residual is not None:
        check_values(residual, count, "residuals")


def added(values: Values, residual: Values | None) -> Values:
    """What is coded: the values, and what was kept back of earlier ones. Beyond float32 it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values if residual is None else values + residual


def scales(whole: Values, groups: Groups) -> Values:
    """float32 [groups]: each group's largest magnitude, 0 for less than `TINY`. DataError where it is not finite."""
    found = np.maximum.reduceat(np.abs(whole), groups.starts[:-1]) if len(groups) else np.zeros(0, np.float32)
    if not np.isfinite(found).all():
        raise not_finite(int(np.argmin(np.isfinite(found))))
    return np.where(found < TINY, np.float32(0), found)


def put(values: Values, out: Values, add: bool) -> None:
    """Write values to `out`, or add them to it."""
    if add:
        out += values
    else:
        out[...] = values


def check_body(body: NDArray[np.uint8], size: int) -> None:
    """PayloadError unless `body` has `size` bytes."""
    if body.dtype != np.uint8 or body.shape != (size,):
        raise PayloadError(
            f"a body of {body.dtype} {body.shape}, where uint8 ({size},) is read: it was cut or is another's"
        )


def not_finite(group: int) -> DataError:
    """The error of a group that no scale fits."""
    return DataError(
        f"group {group} of the values has a NaN or an infinity, or numbers whose sums are beyond float32; "
        "what was kept back is of no more use"
    )
