"""Residuals: gradients that a worker has not sent yet, by key, in a table of fixed size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.rows import mix

Keys = NDArray[np.uint64]
Slots = NDArray[np.int64]
Units = NDArray[np.int32]


class ResidualTable:
    """At most `capacity` rows of int32 by key.

    All memory is taken at the start. Rows lie side by side in `keys` and `rows`; an index with open addressing, at most
    half full, leads from a key to its slot.

    Parameters
    ----------
    capacity : int
        At least 0.
    values : int
        Of a row.

    Attributes
    ----------
    count : int
        Rows that are there: the slots 0 to ``count - 1``.
    keys : uint64 [capacity]
    rows : int32 [capacity, values]
    """

    def __init__(self, capacity: int, values: int):
        self.capacity, self.count = capacity, 0
        self.keys: Keys = np.zeros(capacity, np.uint64)
        self.rows: Units = np.zeros((capacity, values), np.int32)
        self._index = np.full(1 << (2 * capacity).bit_length(), -1, np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.keys.nbytes + self.rows.nbytes + self._index.nbytes

    def find(self, keys: Keys) -> Slots:
        """Return the slot of each key, int64 [n], or -1."""
        slots = np.empty(len(keys), np.int64)
        _find(self._index, self.keys, keys, slots)
        return slots

    def insert(self, keys: Keys, rows: Units) -> None:
        """Add rows; the keys are absent and distinct, and there is room for them."""
        start, self.count = self.count, self.count + len(keys)
        self.keys[start : self.count] = keys
        self.rows[start : self.count] = rows
        _insert(self._index, self.keys, start, self.count)

    def remove(self, slots: Slots) -> None:
        """Remove the rows at distinct `slots`; the last rows move there."""
        self.count = _remove(self._index, self.keys, self.rows, self.count, np.sort(slots))


@kernel(parameter_rows)
def _find(index: NDArray[np.int32], keys: Keys, wanted: Keys, slots: Slots) -> None:
    mask = np.uint64(len(index) - 1)
    for i in range(len(wanted)):
        at = mix(wanted[i]) & mask
        while index[at] >= 0 and keys[index[at]] != wanted[i]:
            at = (at + np.uint64(1)) & mask
        slots[i] = index[at]


@kernel(parameter_rows)
def _insert(index: NDArray[np.int32], keys: Keys, start: int, stop: int) -> None:
    mask = np.uint64(len(index) - 1)
    for slot in range(start, stop):
        at = mix(keys[slot]) & mask
        while index[at] >= 0:
            at = (at + np.uint64(1)) & mask
        index[at] = slot


@kernel(parameter_rows)
def _remove(index: NDArray[np.int32], keys: Keys, rows: Units, count: int, slots: Slots) -> int:
    """Remove rows at ascending slots, from the last on; return how many are left."""
    mask, one = np.uint64(len(index) - 1), np.uint64(1)
    for slot in slots[::-1]:
        at = mix(keys[slot]) & mask
        while index[at] != slot:
            at = (at + one) & mask
        hole = at
        while True:  # move back what would not be found behind a hole
            at = (at + one) & mask
            if index[at] < 0:
                break
            home = mix(keys[index[at]]) & mask
            if ((at - home) & mask) >= ((at - hole) & mask):
                index[hole] = index[at]
                hole = at
        index[hole] = -1
        count -= 1
        if slot < count:
            at = mix(keys[count]) & mask
            while index[at] != count:
                at = (at + one) & mask
            index[at] = slot
            keys[slot] = keys[count]
            rows[slot, :] = rows[count, :]
    return count
