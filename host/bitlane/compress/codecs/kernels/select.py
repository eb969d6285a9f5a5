"""Selection by threshold: one bit per value, then a loop over the bits that are 1."""

from __future__ import annotations

import numpy as np

from bitlane.support.instructions import lowest_set_bit, prefetch

from .common import ONE, TILE, ZERO, Array, Word, inline, kernel, pack_words, u8, u64

CACHE_LINE = u64(16)  # values
WORD = u64(64)  # values in a word of bits


@kernel
def select(
    values: Array, threshold: np.float32, begin: int, indices: Array, selected: Array
) -> tuple[np.int64, np.int64]:
    """Write indices and values from values[begin] on while a tile fits; return their number and where it stopped."""
    flags, masks = np.zeros(TILE // u64(8), np.uint64), np.empty(TILE // WORD, np.uint64)
    begin, count, size, room = u64(begin), ZERO, u64(len(values)), u64(len(indices))
    while begin < size and count + TILE <= room:
        length = min(TILE, size - begin)
        for i in range(begin + TILE, min(begin + TILE + TILE, size), CACHE_LINE):
            prefetch(values, i)
        _flags(values, begin, length, threshold, flags.view(np.uint8))
        for i in range(length, TILE):
            flags.view(np.uint8)[i] = u8(0)
        pack_words(flags, TILE // u64(8), ONE, masks.view(np.uint8))
        for word in range(TILE // WORD):
            mask = masks[word]
            while mask != ZERO:
                index = begin + word * WORD + lowest_set_bit(mask)
                indices[count] = np.int64(index)
                selected[count] = values[index]
                count += ONE
                mask &= mask - ONE
        begin += length
    return np.int64(count), np.int64(begin)


@inline
def _flags(values: Array, begin: Word, count: Word, threshold: np.float32, flags: Array) -> None:
    for i in range(count):
        flags[i] = u8(abs(values[begin + i]) >= threshold)
