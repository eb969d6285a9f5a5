"""The loop of the count-min sketch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.tables.mixing import word_of
from bitlane.support.jit import machine_code

_DEPTH = 4
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_ODD = np.uint64(1)
_OTHER = np.uint64(0x9E3779B97F4A7C15)  # the sketch's cells do not depend on the table's slots


def _count_sightings(
    cells: NDArray[np.uint8], words: NDArray[np.uint64], sightings: int, admitted: NDArray[np.bool_]
) -> None:
    """Add one to the smallest counters of each word, up to `sightings`; write whether it is reached."""
    stride = np.uint64(len(cells) // _DEPTH)
    cell_of = np.empty(_DEPTH, np.int64)
    for i in range(len(words)):
        mixed = word_of(words[i] ^ _OTHER)
        hashed, step = mixed >> _HALF, (mixed & _LOW) | _ODD
        count = sightings
        for row in range(_DEPTH):
            cell_of[row] = np.int64(np.uint64(row) * stride + (((hashed & _LOW) * stride) >> _HALF))
            count = min(count, np.int64(cells[cell_of[row]]))
            hashed += step
        if count < sightings:
            for row in range(_DEPTH):
                if cells[cell_of[row]] == count:
                    cells[cell_of[row]] = count + 1
            count += 1
        admitted[i] = count >= sightings


count_sightings = machine_code(_count_sightings, nogil=True)
