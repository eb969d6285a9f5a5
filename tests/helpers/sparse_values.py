"""A plain reference of sparse values in few bits and of their compressors: one value at a time, without the package."""

from __future__ import annotations

import struct

import numpy as np
from tests.helpers.codec_textbook import stream, word

F = np.float32
CHUNK = 4096


def bfloat16_above(value: F) -> int:
    """The upper half of the bits of the least bfloat16 that is not below a value."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits // 2**16 + (bits % 2**16 > 0)


def as_float(upper: int) -> F:
    return F(struct.unpack("<f", struct.pack("<I", upper * 2**16))[0])


def level_of(distance: F, step: F, most: int, drawn: int | None) -> int:
    """Whole steps: to the nearest, ties to even, or with the upper half of a random word added."""
    if step == 0:
        return 0
    steps = distance / step
    whole = round(float(steps)) if drawn is None else (round(float(steps) * 2**16) + drawn // 2**16) // 2**16
    return min(max(whole, 0), most)


def encode(indices, values, bits, seed=None):
    """Return the codes as bytes, and the values that they mean, float32 [k]."""
    most = 2 ** (bits - 1) - 1
    highs, parts, codes, meant = b"", b"", [], []
    for chunk in sorted({int(index) // CHUNK for index in indices}):
        places = [place for place, index in enumerate(indices) if int(index) // CHUNK == chunk]
        magnitudes = [abs(F(values[place])) for place in places]
        upper = bfloat16_above(max(magnitudes)) if max(magnitudes) >= F(2.0**-100) else 0
        high = as_float(upper)
        part = min(255, int(F(256) * (min(magnitudes) / high))) if high else 0
        low = high * F(part / 256)
        step = (high - low) / F(most)
        highs, parts = highs + struct.pack("<H", upper), parts + bytes([part])
        for place, magnitude in zip(places, magnitudes, strict=True):
            level = level_of(magnitude - low, step, most, None if seed is None else word(seed, place))
            negative = bool(np.signbit(values[place]))
            codes.append(level + (most + 1) * negative)
            value = low + F(level) * step
            meant.append(-value if negative else value)
    return highs + parts + stream(codes, bits), np.array(meant, F)


def chunk_mask(values, density):
    """A mask, bool [n], of the largest nonzero magnitudes of each chunk, a share of it; of ties the first."""
    mask = np.zeros(len(values), bool)
    for begin in range(0, len(values), CHUNK):
        chunk = [abs(float(value)) for value in values[begin : begin + CHUNK]]
        order = sorted(range(len(chunk)), key=lambda place: (-chunk[place], place))
        chosen = order[: max(1, round(density * len(chunk)))]
        mask[[begin + place for place in chosen if chunk[place]]] = True
    return mask
