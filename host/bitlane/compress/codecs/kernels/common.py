"""Functions that the compiled loops share.

numba recompiles a cached kernel when the kernel's own file changes. After a change in this file, or in another file
that kernels take functions from, remove `__pycache__`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import Loop, machine_code

from ..groups import GROUP

Array = NDArray[Any]
Word = np.integer[Any]  # uint64; numba takes the types of the arguments: annotations are for readers

f32, i32, u8, u32, u64 = np.float32, np.int32, np.uint8, np.uint32, np.uint64  # unsigned indices need no test below 0
FULL, ZERO, ONE, EIGHT = u64(GROUP), u64(0), u64(1), u64(8)
TILE = u64(8 * GROUP)  # codes processed at a time: written by one loop, loaded by the next in other widths, all in L1
TILE_WORDS = TILE // EIGHT + ONE


def kernel(function: Loop) -> Loop:
    """Compile a kernel that releases the GIL and divides by zero as numpy does."""
    return machine_code(function, nogil=True, error_model="numpy")


def inline(function: Loop) -> Loop:
    """Compile a function into each kernel that calls it: with a constant trip count its loop needs no remainder."""
    return machine_code(function, nogil=True, error_model="numpy", forceinline=True)


@inline
def low_half_masks(bits: Word) -> tuple[Word, Word, Word]:
    """Masks of the lower of two neighbours, in words of 16, 32 and 64 bits."""
    return (
        ((ONE << bits) - ONE) * u64(0x0001000100010001),
        ((ONE << (u64(2) * bits)) - ONE) * u64(0x0000000100000001),
        (ONE << (u64(4) * bits)) - ONE,
    )


@inline
def pack_words(words: Array, count: Word, bits: Word, to: Array) -> None:
    """Pack each word of eight bytes, `bits` bits used in each byte, into 8 * bits adjacent bits."""
    one, two, four = low_half_masks(bits)
    shift = EIGHT - bits
    for i in range(count):
        x = words[i]
        x = (x & one) | ((x >> shift) & (one << bits))
        x = (x & two) | ((x >> (u64(2) * shift)) & (two << (u64(2) * bits)))
        to[i] = (x & four) | ((x >> (u64(4) * shift)) & (four << (u64(4) * bits)))


@inline
def code_to_level(bits: Word) -> tuple[np.float32, np.float32]:
    """Factor and offset: level = factor * code - offset, in steps."""
    if bits == ONE:
        return f32(2), f32(1)
    return f32(1), f32((ONE << (bits - ONE)) - ONE)


@inline
def tile(lengths: Array, widths: Array, first: Word) -> tuple[Word, Word]:
    """Groups of one width from `first` on whose codes are adjacent in a tile: their end, and the number of codes."""
    last, count = first, ZERO
    while (
        last < u64(len(lengths))
        and widths[last] == widths[first]
        and count + u64(lengths[last]) <= TILE
        and count & u64(7) == ZERO
    ):
        count += u64(lengths[last])
        last += ONE
    return last, count
