"""What a request may be: its limits, and the batch that is scored."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch

Keys = NDArray[np.uint64]
Fields = NDArray[np.uint16]
Floats = NDArray[np.float32]
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class RequestBounds:
    """How large a request may be.

    Attributes
    ----------
    features : int, default=1,048,576
        Of all rows, those that rows share counted for each.
    rows : int, default=65,536
    body_bytes : int, default=33,554,432
        Of a request over HTTP.
    """

    features: int = 1 << 20
    rows: int = 1 << 16
    body_bytes: int = 1 << 25

    def check(self, rows: int, features: int) -> None:
        """Raise DataError if a request of this size is too large."""
        for name, given, most in (("rows", rows, self.rows), ("features", features, self.features)):
            if given > most:
                raise DataError(f"the request has {given:,} {name}; this service accepts at most {most:,}: send fewer")


def batch_of(keys: Keys, offsets: Offsets, fields: Fields | None = None, values: Floats | None = None) -> Batch:
    """Return features without labels as a batch; it shares their memory.

    Parameters
    ----------
    keys : uint64 [nnz]
    offsets : int64 [rows + 1]
    fields : uint16 [nnz], optional
        Default: 0.
    values : float32 [nnz], optional
        Default: 1.

    Raises
    ------
    DataError
        The arrays do not fit, or a value is not finite.
    """
    if values is not None:
        check_values(values)
    nnz, rows = len(keys), max(len(offsets) - 1, 0)
    return Batch(
        keys,
        _ZEROS.first(nnz) if fields is None else fields,
        _ONES.first(nnz) if values is None else values,
        offsets,
        _LABELS.first(rows),
    )


def check_values(values: Floats) -> None:
    """Raise DataError for the first value that is infinite or not a number."""
    finite = np.isfinite(values)
    if not finite.all():
        at = int(np.argmin(finite))
        raise DataError(f"value {at} is {values[at]:g}; values must be finite: omit the feature")


class _Constant:
    """An array of one number, whose slices requests share instead of allocating their own. Do not write to it.

    It can be written nevertheless: kernels are compiled for such arrays.
    """

    def __init__(self, value: float, dtype: DTypeLike):
        self._value, self._dtype = value, dtype
        self._array: NDArray[Any] = np.full(0, value, dtype)
        self._lock = threading.Lock()

    def first(self, size: int) -> NDArray[Any]:
        """Return the first `size` items."""
        array = self._array
        if len(array) < size:
            with self._lock:
                array = self._array = np.full(max(size, 2 * len(self._array)), self._value, self._dtype)
        return array[:size]


_ZEROS, _ONES, _LABELS = _Constant(0, np.uint16), _Constant(1, np.float32), _Constant(0, np.float32)
