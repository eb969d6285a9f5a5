"""What codecs take, checked: cheap looks at an array's type and length, and none at its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .wire import PayloadError


def check_values(values: Any, count: int, name: str = "values") -> None:
    """DataError unless `values` is a contiguous float32 [count]."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        what = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DataError(f"{name} are {what}, and a codec takes a numpy array of float32: convert them first")
    if values.shape != (count,):
        raise DataError(f"{name} have the shape {values.shape}, and their groups ({count},)")
    if not values.flags.c_contiguous:
        raise DataError(f"{name} are not contiguous: give numpy.ascontiguousarray of them")


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
