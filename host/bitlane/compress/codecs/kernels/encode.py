"""Values to bytes: the formulas of `linear` and `sign`, a tile of groups at a time, so that all stays in the L1 cache.

Signs are codes of one bit, with the group's mean magnitude for a step. LLVM makes vector code of the loops, and fuses
no multiply-add as long as `fastmath` is off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.support.hashing import FIRST, FRACTION, PLACE, SECOND

from ..groups import TINY
from .common import (
    EIGHT,
    FULL,
    ONE,
    TILE_WORDS,
    ZERO,
    Array,
    f32,
    i32,
    kernel,
    levels,
    part,
    squeeze,
    tile,
    u8,
    u32,
    u64,
)
from .instructions import prefetch

MAGNITUDE, INFINITY = u32(0x7FFFFFFF), u32(0x7F800000)
AHEAD = u64(2) * FULL  # as far as memory is asked for before it is needed
LINE = u64(16)  # values of a line of the cache


@kernel
def encode(
    values: Array,
    source: Array,
    residual: Array,
    feedback: bool,
    lengths: Array,
    bits: Any,
    random: bool,
    seed: Any,
    steps: Array,
    out: Array,
) -> Any:
    """Writes steps and codes; returns -1, or the first group that no step fits.

    source: where the sums of values and residual are: `residual` with feedback, else `values`.
    """
    bits, seed = u64(bits), u32(seed)
    by, most = levels(bits)
    magnitudes, sums = source.view(np.uint32), np.empty(FULL, np.float32)
    top = np.empty(1, np.uint32)
    scale = top.view(np.float32)
    words, packed = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    whole = bits == EIGHT
    codes = out if whole else words.view(np.uint8)
    first, begin, at = ZERO, ZERO, ZERO
    while first < u64(len(lengths)):
        last, there = tile(lengths, first)
        filled = at if whole else ZERO
        for g in range(first, last):
            count = u64(lengths[g])
            if feedback:
                _add(values, residual, begin, count)
                _ahead(residual, begin)
            _ahead(values, begin)
            if bits == ONE:
                scale[0] = _sum(source, begin, count, sums) / f32(count)
            else:
                top[0] = _top(magnitudes, begin, count)
            if top[0] >= INFINITY:
                return np.int64(g)
            if bits != ONE and scale[0] < TINY:
                scale[0] = f32(0)
            step, inverse = scale[0] / most, most / scale[0] if scale[0] > f32(0) else f32(0)
            steps[g] = step
            if bits == ONE:
                _signs(source, begin, count, codes, filled)
            elif random:
                _random(source, begin, count, inverse, most, seed, codes, filled)
            else:
                _nearest(source, begin, count, inverse, most, codes, filled)
            if feedback:
                _left(residual, begin, count, step, by, most, codes, filled)
            begin += count
            filled += count
        if whole:
            at = filled
        else:
            for i in range(u64(7)):
                codes[filled + i] = u8(0)
            at = _pack(words, there, bits, packed, out, at)
        first = last
    return np.int64(-1)


@part
def _ahead(array: Array, begin: Any) -> None:
    for i in range(begin + AHEAD, min(begin + AHEAD + FULL, u64(len(array))), LINE):
        prefetch(array, i)


@part
def _add(values: Array, residual: Array, begin: Any, count: Any) -> None:
    for i in range(count):
        residual[begin + i] = values[begin + i] + residual[begin + i]


@part
def _top(words: Array, begin: Any, count: Any) -> Any:
    """The largest magnitude, as bits; numbers beyond the largest are beyond INFINITY."""
    top = u32(0)
    for i in range(count):
        top = max(top, u32(words[begin + i] & MAGNITUDE))
    return top


@part
def _half(sums: Array, width: Any) -> None:
    for i in range(width):
        sums[i] = sums[i] + sums[i + width]


@part
def _sum(source: Array, begin: Any, count: Any, sums: Array) -> Any:
    """The magnitudes' sum, each half of 512 onto the other."""
    for i in range(count):
        sums[i] = abs(source[begin + i])
    for i in range(count, FULL):
        sums[i] = f32(0)
    _half(sums, u64(256))
    _half(sums, u64(128))
    _half(sums, u64(64))
    _half(sums, u64(32))
    _half(sums, u64(16))
    _half(sums, EIGHT)
    _half(sums, u64(4))
    _half(sums, u64(2))
    return sums[0] + sums[1]


@part
def _signs(source: Array, begin: Any, count: Any, codes: Array, at: Any) -> None:
    for i in range(count):
        codes[at + i] = u8(source[begin + i] >= f32(0))


@part
def _nearest(source: Array, begin: Any, count: Any, inverse: Any, most: Any, codes: Array, at: Any) -> None:
    for i in range(count):
        codes[at + i] = u8(i32(np.rint(source[begin + i] * inverse) + most))


@part
def _random(source: Array, begin: Any, count: Any, inverse: Any, most: Any, seed: Any, codes: Array, at: Any) -> None:
    base = u32(u32(begin) * u32(PLACE) + seed)
    fine, bias, limit = inverse * f32(1 << FRACTION), u32(most) << u32(FRACTION), u32(u32(most) * u32(2))
    for i in range(count):
        x = u32(u32(i) * u32(PLACE) + base)
        x = u32(u32(x ^ (x >> u32(16))) * u32(FIRST))
        x = u32(u32(x ^ (x >> u32(15))) * u32(SECOND))
        steps = u32(i32(np.rint(source[begin + i] * fine))) + (x >> u32(32 - FRACTION)) + bias
        codes[at + i] = u8(min(u32(u32(steps) >> u32(FRACTION)), limit))


@part
def _left(residual: Array, begin: Any, count: Any, step: Any, by: Any, most: Any, codes: Array, at: Any) -> None:
    for i in range(count):
        residual[begin + i] = residual[begin + i] - (f32(codes[at + i]) * by - most) * step


@part
def _pack(codes: Array, count: Any, bits: Any, packed: Array, out: Array, at: Any) -> Any:
    """Writes `count` codes of a tile, words of eight, to out[at:], and returns where they end."""
    words = (count + u64(7)) >> u64(3)
    if bits == ONE:
        squeeze(codes, words, ONE, packed.view(np.uint8))
    elif bits == u64(2):
        squeeze(codes, words, u64(2), packed.view(np.uint16))
    elif bits == u64(4):
        squeeze(codes, words, u64(4), packed.view(np.uint32))
    else:
        squeeze(codes, words, bits, packed)
        _join(packed, words, bits)
    source, size = packed.view(np.uint8), (count * bits + u64(7)) >> u64(3)
    for i in range(size):
        out[at + i] = source[i]
    return at + size


@part
def _join(words: Array, count: Any, bits: Any) -> None:
    """In place: the 8 b bits that each word has become those of a stream."""
    width = EIGHT * bits
    held, fill, at = ZERO, ZERO, ZERO
    for i in range(count):
        word = words[i]
        held |= word << fill
        fill += width
        if fill >= u64(64):
            words[at] = held
            at += ONE
            fill -= u64(64)
            held = word >> (width - fill)
    if fill > ZERO:
        words[at] = held
