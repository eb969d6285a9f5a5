"""Bytes to values: the inverse of `encode`, a tile of groups at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    inline,
    kernel,
    low_half_masks,
    tile,
    u64,
)


@kernel
def decode(body: Array, scales: Array, lengths: Array, widths: Array, out: Array, add: bool) -> None:
    """Write the values that `encode` encoded to `out`, or add them to it."""
    words, packed = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    first, begin, at = ZERO, ZERO, ZERO
    while first < u64(len(lengths)):
        last, count_of_tile = tile(lengths, widths, first)
        bits = u64(widths[first])
        byte_codes = bits == EIGHT
        codes = body if byte_codes else words.view(np.uint8)
        read = at if byte_codes else ZERO
        at = at + count_of_tile if byte_codes else _unpack(body, at, count_of_tile, bits, packed, words)
        for g in range(first, last):
            count = u64(lengths[g])
            if count == FULL:
                _values(codes, read, out, begin, FULL, scales[g], bits, add)
            else:
                _values(codes, read, out, begin, count, scales[g], bits, add)
            begin += count
            read += count
        first = last


@inline
def _values(
    codes: Array, at: Word, out: Array, begin: Word, count: Word, step: np.float32, bits: Word, add: bool
) -> None:
    factor, offset = code_to_level(bits)
    if add:
        for i in range(count):
            out[begin + i] = out[begin + i] + (f32(codes[at + i]) * factor - offset) * step
    else:
        for i in range(count):
            out[begin + i] = (f32(codes[at + i]) * factor - offset) * step


@inline
def _unpack(body: Array, at: Word, count: Word, bits: Word, packed: Array, codes: Array) -> Any:
    """Unpack the codes of a tile that `encode` packed; return where they end in the body."""
    words = (count + u64(7)) >> u64(3)
    source, size = packed.view(np.uint8), (count * bits + u64(7)) >> u64(3)
    for i in range(size):
        source[i] = body[at + i]
    if bits == ONE:
        _unpack_words(packed.view(np.uint8), words, ONE, codes)
    elif bits == u64(2):
        _unpack_words(packed.view(np.uint16), words, u64(2), codes)
    elif bits == u64(4):
        _unpack_words(packed.view(np.uint32), words, u64(4), codes)
    else:
        _split_stream(packed, words, bits, codes)
        _unpack_words(codes, words, bits, codes)
    return at + size


@inline
def _unpack_words(words: Array, count: Word, bits: Word, to: Array) -> None:
    """The inverse of `pack_words`."""
    one, two, four = low_half_masks(bits)
    shift = EIGHT - bits
    for i in range(count):
        x = u64(words[i])
        x = (x & four) | ((x & (four << (u64(4) * bits))) << (u64(4) * shift))
        x = (x & two) | ((x & (two << (u64(2) * bits))) << (u64(2) * shift))
        to[i] = (x & one) | ((x & (one << bits)) << shift)


@inline
def _split_stream(stream: Array, count: Word, bits: Word, to: Array) -> None:
    """Split a bit stream into words of 8 * bits bits."""
    width = EIGHT * bits
    mask = (ONE << width) - ONE
    for i in range(count):
        at = i * width
        low, shift = stream[at >> u64(6)], at & u64(63)
        high = stream[(at >> u64(6)) + ONE]
        to[i] = ((low >> shift) | ((high << ONE) << (u64(63) - shift))) & mask
