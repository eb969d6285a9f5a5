"""How often keys have come lately, in a fixed number of bytes.

Each key has two cells; its count is the smaller one, and only cells as small as that are raised (count-min sketch with
conservative update, Cormode and Muthukrishnan, 2005; Estan and Varghese, 2002). After some sightings all cells are
halved, so that counts tell of the recent past (TinyLFU, Einziger et al., 2017). Until then, no count is too low.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.rows import mix

_LARGEST = 255
_SIGHTINGS = 10  # for each cell, after which cells are halved

Keys = NDArray[np.uint64]


class Popularity:
    """Counts of keys.

    Parameters
    ----------
    cells : int
        Bytes; rounded up to a power of two.
    """

    def __init__(self, cells: int):
        self._cells = np.zeros(1 << max(cells - 1, 0).bit_length(), np.uint8)
        self._sightings = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._cells.nbytes

    def add(self, keys: Keys) -> None:
        """Count a sighting of each key, uint64 [n]."""
        _add(self._cells, keys)
        self._sightings += len(keys)
        if self._sightings >= _SIGHTINGS * len(self._cells):
            self._cells >>= 1
            self._sightings = 0

    def counts(self, keys: Keys) -> NDArray[np.uint8]:
        """Return the count of each key, uint8 [n]; 255 is 255 or more."""
        counts = np.empty(len(keys), np.uint8)
        _read(self._cells, keys, counts)
        return counts


@inner
def cells_of(cells: NDArray[np.uint8], key: np.uint64) -> Any:
    """Return the two cells of a key."""
    word, mask = mix(key), np.uint64(len(cells) - 1)
    return word & mask, (word >> np.uint64(32)) & mask


@kernel(parameter_rows)
def _add(cells: NDArray[np.uint8], keys: NDArray[np.uint64]) -> None:
    for key in keys:
        first, second = cells_of(cells, key)
        count = min(cells[first], cells[second])
        if count < _LARGEST:
            for cell in (first, second):
                if cells[cell] == count:
                    cells[cell] = count + 1


@kernel(parameter_rows)
def _read(cells: NDArray[np.uint8], keys: NDArray[np.uint64], counts: NDArray[np.uint8]) -> None:
    for i in range(len(keys)):
        first, second = cells_of(cells, keys[i])
        counts[i] = min(cells[first], cells[second])
