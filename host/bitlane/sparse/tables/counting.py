"""The loop of the count-min sketch."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.sparse.tables.mixing import word_of
from bitlane.support.jit import machine_code

_DEPTH = 4
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_ODD = np.uint64(1)
_OTHER = np.uint64(0x9E3779B97F4A7C15)  # the sketch's places have nothing to do with the table's


def _count_sightings(cells: Any, words: Any, sightings: int, admitted: Any) -> None:
    """Add one to the smallest counters of each word, up to `sightings`; write whether it is reached."""
    stride = np.uint64(len(cells) // _DEPTH)
    places = np.empty(_DEPTH, np.int64)
    for i in range(len(words)):
        mixed = word_of(words[i] ^ _OTHER)
        place, step = mixed >> _HALF, (mixed & _LOW) | _ODD
        count = sightings
        for row in range(_DEPTH):
            places[row] = np.int64(np.uint64(row) * stride + (((place & _LOW) * stride) >> _HALF))
            count = min(count, np.int64(cells[places[row]]))
            place += step
        if count < sightings:
            for row in range(_DEPTH):
                if cells[places[row]] == count:
                    cells[places[row]] = count + 1
            count += 1
        admitted[i] = count >= sightings


count_sightings = machine_code(_count_sightings, nogil=True)
