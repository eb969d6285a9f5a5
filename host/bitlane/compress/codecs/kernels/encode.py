"""Values to bytes: the formulas of `linear` and `sign`, a tile of groups at a time, so that the data stay in L1.

Signs are codes of one bit whose step is the group's mean magnitude. LLVM vectorizes the loops, and fuses no
multiply-add because `fastmath` is off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.support.hashing import FRACTION_BITS, GOLDEN_RATIO, MULTIPLIERS
from bitlane.support.instructions import prefetch

from ..groups import MIN_SCALE
from .common import (
    EIGHT,
    FULL,
    ONE,
    TILE_WORDS,
    ZERO,
    Array,
    Word,
    code_to_level,
    f32,
    i32,
    inline,
    kernel,
    pack_words,
    tile,
    u8,
    u32,
    u64,
)

MAGNITUDE_MASK, INFINITY = u32(0x7FFFFFFF), u32(0x7F800000)
PREFETCH_DISTANCE = u64(2) * FULL  # values
CACHE_LINE = u64(16)  # values
MULTIPLIER_1, MULTIPLIER_2 = MULTIPLIERS  # numba takes plain integers as constants


@kernel
def encode(values: Array, inputs: Array, residual: Array, lengths: Array, widths: Array, seed: int, body: Array) -> Any:
    """Write the body: steps, then codes. Return -1, or the first group whose step is not finite.

    inputs: what is encoded, `residual` with error feedback, else `values`. residual: empty without error feedback.
    widths: bits of each group. seed: of stochastic rounding; negative rounds to the nearest.
    """
    steps, out = body[: 4 * len(lengths)].view(np.float32), body[4 * len(lengths) :]
    stochastic, feedback = seed >= 0, len(residual) > 0
    seed = u32(seed)
    magnitudes, sums = inputs.view(np.uint32), np.empty(FULL, np.float32)
    scale_bits = np.empty(1, np.uint32)
    scale = scale_bits.view(np.float32)
    words, packed = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    first, begin, at = ZERO, ZERO, ZERO
    while first < u64(len(lengths)):
        last, count_of_tile = tile(lengths, widths, first)
        bits = u64(widths[first])
        _, max_level = code_to_level(bits)
        byte_codes = bits == EIGHT
        codes = out if byte_codes else words.view(np.uint8)
        filled = at if byte_codes else ZERO
        for g in range(first, last):
            count = u64(lengths[g])
            if feedback:
                _add(values, residual, begin, count)
                _prefetch_ahead(residual, begin)
            _prefetch_ahead(values, begin)
            if bits == ONE:
                scale[0] = _sum_of_magnitudes(inputs, begin, count, sums) / f32(count)
            else:
                scale_bits[0] = _max_magnitude(magnitudes, begin, count)
            if scale_bits[0] >= INFINITY:
                return np.int64(g)
            if bits != ONE and scale[0] < MIN_SCALE:
                scale[0] = f32(0)
            step, inverse = scale[0] / max_level, max_level / scale[0] if scale[0] > f32(0) else f32(0)
            steps[g] = step
            if bits == ONE:
                _signs(inputs, begin, count, codes, filled)
            elif stochastic:
                _stochastic(inputs, begin, count, inverse, max_level, seed, codes, filled)
            else:
                _nearest(inputs, begin, count, inverse, max_level, codes, filled)
            if feedback:
                _update_residual(residual, begin, count, step, bits, codes, filled)
            begin += count
            filled += count
        if byte_codes:
            at = filled
        else:
            for i in range(u64(7)):
                codes[filled + i] = u8(0)
            at = _pack(words, count_of_tile, bits, packed, out, at)
        first = last
    return np.int64(-1)


@inline
def _prefetch_ahead(array: Array, begin: Word) -> None:
    ahead = begin + PREFETCH_DISTANCE
    for i in range(ahead, min(ahead + FULL, u64(len(array))), CACHE_LINE):
        prefetch(array, i)


@inline
def _add(values: Array, residual: Array, begin: Word, count: Word) -> None:
    for i in range(count):
        residual[begin + i] = values[begin + i] + residual[begin + i]


@inline
def _max_magnitude(words: Array, begin: Word, count: Word) -> Any:
    """The largest magnitude as bits; a NaN or an infinity is at least INFINITY."""
    top = u32(0)
    for i in range(count):
        top = max(top, u32(words[begin + i] & MAGNITUDE_MASK))
    return top


@inline
def _add_halves(sums: Array, width: Word) -> None:
    for i in range(width):
        sums[i] = sums[i] + sums[i + width]


@inline
def _sum_of_magnitudes(inputs: Array, begin: Word, count: Word, sums: Array) -> Any:
    """The sum of the magnitudes as a binary tree over 512 values."""
    for i in range(count):
        sums[i] = abs(inputs[begin + i])
    for i in range(count, FULL):
        sums[i] = f32(0)
    _add_halves(sums, u64(256))
    _add_halves(sums, u64(128))
    _add_halves(sums, u64(64))
    _add_halves(sums, u64(32))
    _add_halves(sums, u64(16))
    _add_halves(sums, EIGHT)
    _add_halves(sums, u64(4))
    _add_halves(sums, u64(2))
    return sums[0] + sums[1]


@inline
def _signs(inputs: Array, begin: Word, count: Word, codes: Array, at: Word) -> None:
    for i in range(count):
        codes[at + i] = u8(inputs[begin + i] >= f32(0))


@inline
def _nearest(
    inputs: Array, begin: Word, count: Word, inverse: np.float32, max_level: np.float32, codes: Array, at: Word
) -> None:
    for i in range(count):
        codes[at + i] = u8(i32(np.rint(inputs[begin + i] * inverse) + max_level))


@inline
def _stochastic(
    inputs: Array,
    begin: Word,
    count: Word,
    inverse: np.float32,
    max_level: np.float32,
    seed: np.uint32,
    codes: Array,
    at: Word,
) -> None:
    base = u32(u32(begin) * u32(GOLDEN_RATIO) + seed)
    fine = inverse * f32(1 << FRACTION_BITS)
    bias, limit = u32(max_level) << u32(FRACTION_BITS), u32(u32(max_level) * u32(2))
    for i in range(count):
        x = u32(u32(i) * u32(GOLDEN_RATIO) + base)
        x = u32(u32(x ^ (x >> u32(16))) * u32(MULTIPLIER_1))
        x = u32(u32(x ^ (x >> u32(15))) * u32(MULTIPLIER_2))
        level = u32(i32(np.rint(inputs[begin + i] * fine))) + (x >> u32(32 - FRACTION_BITS)) + bias
        codes[at + i] = u8(min(u32(u32(level) >> u32(FRACTION_BITS)), limit))


@inline
def _update_residual(
    residual: Array, begin: Word, count: Word, step: np.float32, bits: Word, codes: Array, at: Word
) -> None:
    factor, offset = code_to_level(bits)
    for i in range(count):
        residual[begin + i] = residual[begin + i] - (f32(codes[at + i]) * factor - offset) * step


@inline
def _pack(codes: Array, count: Word, bits: Word, packed: Array, out: Array, at: Word) -> Any:
    """Pack `count` codes of a tile, eight in a word, into out[at:]; return where they end."""
    words = (count + u64(7)) >> u64(3)
    if bits == ONE:
        pack_words(codes, words, ONE, packed.view(np.uint8))
    elif bits == u64(2):
        pack_words(codes, words, u64(2), packed.view(np.uint16))
    elif bits == u64(4):
        pack_words(codes, words, u64(4), packed.view(np.uint32))
    else:
        pack_words(codes, words, bits, packed)
        _join_stream(packed, words, bits)
    source, size = packed.view(np.uint8), (count * bits + u64(7)) >> u64(3)
    for i in range(size):
        out[at + i] = source[i]
    return at + size


@inline
def _join_stream(words: Array, count: Word, bits: Word) -> None:
    """Join words of 8 * bits bits into one bit stream, in place."""
    width = EIGHT * bits
    pending, fill, at = ZERO, ZERO, ZERO
    for i in range(count):
        word = words[i]
        pending |= word << fill
        fill += width
        if fill >= u64(64):
            words[at] = pending
            at += ONE
            fill -= u64(64)
            pending = word >> (width - fill)
    if fill > ZERO:
        words[at] = pending
