"""What the compiled loops share.

numba compiles again what it keeps on disk when a kernel's own file has changed: after a change here, and in a file that
kernels take parts from, remove `__pycache__`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import machine_code

from ..groups import GROUP

Array = NDArray[Any]

f32, i32, u8, u32, u64 = np.float32, np.int32, np.uint8, np.uint32, np.uint64  # unsigned indices need no test below 0
FULL, ZERO, ONE, EIGHT = u64(GROUP), u64(0), u64(1), u64(8)
TILE = u64(8 * GROUP)  # codes that are worked on at a time: what one loop stores, the next can load in other widths
TILE_WORDS = TILE // EIGHT + ONE


def kernel(function: Any) -> Any:
    """Machine code that other threads run beside, and that divides by zero as numpy does."""
    return machine_code(function, nogil=True, error_model="numpy")


def part(function: Any) -> Any:
    """A part of kernels, compiled anew where it is called: with a constant number of values, its loop has no rest."""
    return machine_code(function, nogil=True, error_model="numpy", forceinline=True)


@part
def masks(bits: Any) -> Any:
    """Of the lower ones of two neighbours: in 16, 32 and 64 bits."""
    return (
        ((ONE << bits) - ONE) * u64(0x0001000100010001),
        ((ONE << (u64(2) * bits)) - ONE) * u64(0x0000000100000001),
        (ONE << (u64(4) * bits)) - ONE,
    )


@part
def squeeze(words: Array, count: Any, bits: Any, to: Array) -> None:
    """Makes words of eight bytes, with so many bits each, words of as many bits side by side."""
    one, two, four = masks(bits)
    by = EIGHT - bits
    for i in range(count):
        x = words[i]
        x = (x & one) | ((x >> by) & (one << bits))
        x = (x & two) | ((x >> (u64(2) * by)) & (two << (u64(2) * bits)))
        to[i] = (x & four) | ((x >> (u64(4) * by)) & (four << (u64(4) * bits)))


@part
def levels(bits: Any) -> Any:
    """What a code is multiplied with, and what is taken from it, to be a number of steps."""
    if bits == ONE:
        return f32(2), f32(1)
    return f32(1), f32((ONE << (bits - ONE)) - ONE)


@part
def tile(lengths: Array, first: Any) -> Any:
    """Groups from `first` on whose codes lie side by side in a tile: the first that is not, and how many codes."""
    last, count = first, ZERO
    while last < u64(len(lengths)) and count + u64(lengths[last]) <= TILE and count & u64(7) == ZERO:
        count += u64(lengths[last])
        last += ONE
    return last, count
