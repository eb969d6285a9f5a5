"""Selection by threshold: a bit a value, and only the bits that are 1 are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import ONE, TILE, ZERO, Array, kernel, part, squeeze, u8, u64
from .instructions import lowest, prefetch

LINE = u64(16)  # values of a line of the cache
WORD = u64(64)  # values that a word has bits of


@kernel
def select(values: Array, threshold: Any, begin: Any, places: Array, found: Array) -> Any:
    """Writes places and values from values[begin] on, while a tile has room: how many, and where it stopped."""
    flags, masks = np.zeros(TILE // u64(8), np.uint64), np.empty(TILE // WORD, np.uint64)
    begin, count, size, room = u64(begin), ZERO, u64(len(values)), u64(len(places))
    while begin < size and count + TILE <= room:
        length = min(TILE, size - begin)
        for i in range(begin + TILE, min(begin + TILE + TILE, size), LINE):
            prefetch(values, i)
        _flags(values, begin, length, threshold, flags.view(np.uint8))
        for i in range(length, TILE):
            flags.view(np.uint8)[i] = u8(0)
        squeeze(flags, TILE // u64(8), ONE, masks.view(np.uint8))
        for word in range(TILE // WORD):
            mask = masks[word]
            while mask != ZERO:
                place = begin + word * WORD + lowest(mask)
                places[count] = np.int64(place)
                found[count] = values[place]
                count += ONE
                mask &= mask - ONE
        begin += length
    return np.int64(count), np.int64(begin)


@part
def _flags(values: Array, begin: Any, count: Any, threshold: Any, flags: Array) -> None:
    for i in range(count):
        flags[i] = u8(abs(values[begin + i]) >= threshold)
