"""A worker's cache: the rows that it has read, each with the clock up to which it is complete."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters import rows as row_kernels
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.rows import mix

_WAYS = 8  # slots that a key may have

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Slots = NDArray[np.int64]


@kernel(row_kernels)
def _find(keys: Keys, cached: Keys, clocks: Slots, oldest: int, slots: Slots) -> int:
    """Write the slots of the keys whose rows are complete up to `oldest`, -1 for others; return how many there are."""
    sets = np.uint64(len(cached) // _WAYS)
    hits = 0
    for i in range(len(keys)):
        base = np.int64(mix(keys[i]) % sets) * _WAYS
        slots[i] = -1
        for at in range(base, base + _WAYS):
            if clocks[at] >= oldest and cached[at] == keys[i]:
                slots[i] = at
                hits += 1
                break
    return hits


@kernel(row_kernels)
def _assign(keys: Keys, clocks_of: Slots, cached: Keys, clocks: Slots, slots: Slots) -> None:
    """Give each key a slot: its own, or the one of its set whose row is complete up to the lowest clock."""
    sets = np.uint64(len(cached) // _WAYS)
    for i in range(len(keys)):
        base = np.int64(mix(keys[i]) % sets) * _WAYS
        best = base
        for at in range(base, base + _WAYS):
            if clocks[at] >= 0 and cached[at] == keys[i]:
                best = at
                break
            if clocks[at] < clocks[best]:
                best = at
        cached[best], clocks[best], slots[i] = keys[i], clocks_of[i], best


class RowCache:
    """Rows of a fixed number of keys. Of eight slots that a key may have, the stalest is given up.

    Parameters
    ----------
    size : int
        Rows, rounded up to a multiple of 8; 0 keeps none.
    width : int
        Floats of a row.

    Attributes
    ----------
    rows : float32 [slots, width]
        The memory of the cache. Its owner may change the rows that `find` returns.
    clocks : int64 [slots]
        Each row has all steps stamped below its clock; -1: the slot is free.
    """

    def __init__(self, size: int, width: int):
        if size < 0:
            raise DataError(f"a cache must have 0 or more rows; got {size}")
        slots = max(1, -(-size // _WAYS)) * _WAYS
        self._keeps = size > 0
        self._keys = np.zeros(slots, np.uint64)
        self.clocks = np.full(slots, -1, np.int64)
        self.rows = np.zeros((slots, width), np.float32)

    def find(self, keys: Keys, oldest: int = 0) -> Slots:
        """Return the slot of each key, int64 [n]; -1 unless its row has all steps stamped below `oldest`."""
        slots = np.empty(len(keys), np.int64)
        _find(np.require(keys, requirements=("C", "W")), self._keys, self.clocks, max(oldest, 0), slots)
        return slots

    def put(self, keys: Keys, rows: Floats, clocks: NDArray[np.int64]) -> None:
        """Keep rows [n, width] of distinct keys [n], each with all steps stamped below its clock [n]."""
        if not self._keeps:
            return
        slots = np.empty(len(keys), np.int64)
        _assign(np.require(keys, requirements=("C", "W")), clocks, self._keys, self.clocks, slots)
        self.rows[slots] = rows  # of two keys that got one slot, the later one counts, as in `_assign`
