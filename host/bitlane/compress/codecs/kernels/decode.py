"""Bytes to values: what `encode` wrote, a tile of groups at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import EIGHT, FULL, ONE, TILE_WORDS, ZERO, Array, f32, kernel, levels, masks, part, tile, u64


@kernel
def decode(body: Array, steps: Array, lengths: Array, bits: Any, out: Array, add: bool) -> None:
    """Writes, or adds, the values that `encode` wrote."""
    bits = u64(bits)
    by, most = levels(bits)
    words, packed = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    whole = bits == EIGHT
    codes = body if whole else words.view(np.uint8)
    first, begin, at = ZERO, ZERO, ZERO
    while first < u64(len(lengths)):
        last, there = tile(lengths, first)
        filled = at if whole else ZERO
        at = at + there if whole else _unpack(body, at, there, bits, packed, words)
        for g in range(first, last):
            count = u64(lengths[g])
            if count == FULL:
                _values(codes, filled, out, begin, FULL, steps[g], by, most, add)
            else:
                _values(codes, filled, out, begin, count, steps[g], by, most, add)
            begin += count
            filled += count
        first = last


@part
def _values(codes: Array, at: Any, out: Array, begin: Any, count: Any, step: Any, by: Any, most: Any, add: Any) -> None:
    if add:
        for i in range(count):
            out[begin + i] = out[begin + i] + (f32(codes[at + i]) * by - most) * step
    else:
        for i in range(count):
            out[begin + i] = (f32(codes[at + i]) * by - most) * step


@part
def _unpack(body: Array, at: Any, count: Any, bits: Any, packed: Array, codes: Array) -> Any:
    """Reads the codes of a tile that `_pack` wrote, and returns where they end."""
    words = (count + u64(7)) >> u64(3)
    source, size = packed.view(np.uint8), (count * bits + u64(7)) >> u64(3)
    for i in range(size):
        source[i] = body[at + i]
    if bits == ONE:
        _spread(packed.view(np.uint8), words, ONE, codes)
    elif bits == u64(2):
        _spread(packed.view(np.uint16), words, u64(2), codes)
    elif bits == u64(4):
        _spread(packed.view(np.uint32), words, u64(4), codes)
    else:
        _part(packed, words, bits, codes)
        _spread(codes, words, bits, codes)
    return at + size


@part
def _spread(words: Array, count: Any, bits: Any, to: Array) -> None:
    one, two, four = masks(bits)
    by = EIGHT - bits
    for i in range(count):
        x = u64(words[i])
        x = (x & four) | ((x & (four << (u64(4) * bits))) << (u64(4) * by))
        x = (x & two) | ((x & (two << (u64(2) * bits))) << (u64(2) * by))
        to[i] = (x & one) | ((x & (one << bits)) << by)


@part
def _part(stream: Array, count: Any, bits: Any, to: Array) -> None:
    """The words of 8 b bits that a stream of words is made of."""
    width = EIGHT * bits
    mask = (ONE << width) - ONE
    for i in range(count):
        at = i * width
        low, by = stream[at >> u64(6)], at & u64(63)
        high = stream[(at >> u64(6)) + ONE]
        to[i] = ((low >> by) | ((high << ONE) << (u64(63) - by))) & mask
