"""A batch: rows of sparse features in compressed sparse rows (CSR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError


@dataclass(frozen=True)
class Batch:
    """Rows of sparse features with their labels.

    Row r has the features ``offsets[r]`` to ``offsets[r + 1] - 1``.

    Attributes
    ----------
    keys : uint64 [nnz]
        The features: any 64 bits.
    fields : uint16 [nnz]
        The group of each feature, such as the column that it comes from.
    values : float32 [nnz]
    offsets : int64 [rows + 1]
        Begins with 0, never decreases, ends with nnz.
    labels : float32 [rows]
    times : int64 [rows], optional
        Seconds since 1970.
    weights : float32 [rows], optional
        How many rows each one counts as, finite and at least 0; without them each counts as one.
    """

    keys: NDArray[np.uint64]
    fields: NDArray[np.uint16]
    values: NDArray[np.float32]
    offsets: NDArray[np.int64]
    labels: NDArray[np.float32]
    times: NDArray[np.int64] | None = None
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        wanted: dict[str, Any] = {
            "keys": np.uint64,
            "fields": np.uint16,
            "values": np.float32,
            "offsets": np.int64,
            "labels": np.float32,
        }
        for name, dtype in wanted.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
                raise DataError(f"{name} must be a {np.dtype(dtype)} array of one dimension; got {_kind(array)}")
        nnz = len(self.keys)
        if len(self.fields) != nnz or len(self.values) != nnz:
            raise DataError(f"{nnz} keys need as many fields and values; got {len(self.fields)} and {len(self.values)}")
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != nnz:
            raise DataError(f"offsets must begin with 0 and end with the number of keys, {nnz}")
        if np.any(np.diff(self.offsets) < 0):
            raise DataError(f"offsets decrease after row {int(np.argmax(np.diff(self.offsets) < 0))}")
        if len(self.labels) != self.rows or (self.times is not None and len(self.times) != self.rows):
            raise DataError(f"{self.rows} rows need as many labels and times; got {len(self.labels)} labels")
        if self.weights is not None and self.weights.shape != (self.rows,):
            raise DataError(f"{self.rows} rows need as many weights; got {_kind(self.weights)}")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def nnz(self) -> int:
        """Number of features of all rows."""
        return len(self.keys)

    @property
    def total_weight(self) -> float:
        """Sum of the weights; without them the number of rows."""
        return self.rows if self.weights is None else float(np.sum(self.weights, dtype=np.float64))

    def slice(self, start: int, stop: int) -> Batch:
        """Return rows `start` to `stop` - 1 as views of this batch; only the offsets are copied."""
        start, stop, _ = slice(start, stop).indices(self.rows)
        stop = max(start, stop)
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return Batch(
            self.keys[first:last],
            self.fields[first:last],
            self.values[first:last],
            self.offsets[start : stop + 1] - first,
            self.labels[start:stop],
            None if self.times is None else self.times[start:stop],
            None if self.weights is None else self.weights[start:stop],
        )

    def take(self, order: NDArray[np.int64]) -> Batch:
        """Return the rows of the indices `order`, int64 [n], as a copy."""
        starts, lengths = self.offsets[order], np.diff(self.offsets)[order]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        index = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Batch(
            self.keys[index],
            self.fields[index],
            self.values[index],
            offsets,
            self.labels[order],
            None if self.times is None else self.times[order],
            None if self.weights is None else self.weights[order],
        )

    @staticmethod
    def concatenate(batches: Sequence[Batch]) -> Batch:
        """Return the rows of all batches in order.

        Parameters
        ----------
        batches : sequence of Batch
            At least one. Either all have times or none has, and so for weights.

        Raises
        ------
        DataError
            Some batches have times or weights, and others have none.
        """
        if len(batches) == 1:
            return batches[0]
        bases = np.cumsum([0, *(batch.nnz for batch in batches)])
        offsets = [batch.offsets[1:] + base for batch, base in zip(batches, bases[:-1], strict=True)]
        return Batch(
            np.concatenate([batch.keys for batch in batches]),
            np.concatenate([batch.fields for batch in batches]),
            np.concatenate([batch.values for batch in batches]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
            np.concatenate([batch.labels for batch in batches]),
            _joined([batch.times for batch in batches], "times"),
            _joined([batch.weights for batch in batches], "weights"),
        )


def _joined(arrays: Sequence[NDArray[Any] | None], what: str) -> NDArray[Any] | None:
    given = [array for array in arrays if array is not None]
    if given and len(given) != len(arrays):
        raise DataError(f"{len(given)} of {len(arrays)} batches have {what}; all or none must have them")
    return np.concatenate(given) if given else None


def _kind(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
