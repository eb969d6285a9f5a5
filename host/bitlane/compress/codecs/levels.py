"""The values of a sparse vector in 2, 4 or 8 bits: a sign, and a level between the magnitudes of a chunk.

A chunk is 4,096 places of the vector. With L = 2**(bits - 1) levels and the magnitudes of its values that are sent:

    high = max |v|, rounded up to bfloat16,   low = high * floor(256 min |v| / high) / 256
    step = (high - low) / (L - 1)
    j = round((|v| - low) / step),   v' = sign(v) (low + j * step)

Selected values are far from zero, and have no level there; other values have low = 0, and with 2 bits the levels -high,
0 and high. Rounding is to the nearest (ties to even), or stochastic and unbiased. All arithmetic is float32 in this
order, so that numpy here and torch in `gpu.levels` write the same bytes.

| bytes | for c chunks that have values, and k values |
| --- | --- |
| 2 c | high of each chunk, bfloat16 |
| c | 256 low / high of each chunk, 0 to 255 |
| (k bits + 7) // 8 | codes j + L (v < 0), the first in the lowest bits |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.hashing import FRACTION_BITS, hash_words

from .arrays import Values
from .groups import MIN_SCALE
from .packing import Bytes
from .wire import PayloadError

Indices = NDArray[np.int64]

BITS = (2, 4, 8)
CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS  # places of a vector that share a scale
SCALE_BYTES = 3  # of a chunk
LARGEST = np.float32(2.0**127)  # above it, a magnitude could round to infinity in bfloat16
LEAST_HIGH, MOST_HIGH = (int(each.view(np.uint32)) >> 16 for each in (MIN_SCALE, LARGEST))  # as bfloat16


def encode(indices: Indices, values: Values, bits: int, seed: int | None = None) -> tuple[Bytes, Values]:
    """Encode values float32 [k] at ascending indices int64 [k].

    Parameters
    ----------
    indices, values
        Values of at most 2**127 in magnitude.
    bits : int
        2, 4 or 8.
    seed : int, optional
        32-bit seed of stochastic rounding. None rounds to the nearest level.

    Returns
    -------
    codes : uint8 [value_bytes(indices, bits)]
    decoded : float32 [k]
        What `decode` returns for them.

    Raises
    ------
    DataError
        If a value is not finite or above 2**127 in magnitude.
    """
    begins = chunk_begins(indices)
    magnitudes = np.abs(values)
    highs = np.maximum.reduceat(magnitudes, begins) if len(begins) else magnitudes
    lows = np.minimum.reduceat(magnitudes, begins) if len(begins) else magnitudes
    if not (highs <= LARGEST).all():
        raise out_of_bounds()
    highs = np.where(highs < MIN_SCALE, np.float32(0), highs)
    rounded_up = ((highs.view(np.uint32) + np.uint32(0xFFFF)) >> np.uint32(16)).astype("<u2")
    highs = _as_float32(rounded_up)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(highs > 0, np.minimum(np.floor(np.float32(256) * (lows / highs)), np.float32(255)), 0)
    parts = parts.astype(np.uint8)
    low, step = _levels(highs, parts, begins, len(indices), bits)
    most = np.float32(2 ** (bits - 1) - 1)
    above = np.divide(magnitudes - low, step, out=np.zeros(len(values), np.float32), where=step > 0)
    if seed is None:
        level = np.rint(above)
    else:
        fixed = np.rint(above * np.float32(1 << FRACTION_BITS)).astype(np.int64)
        words = hash_words(seed, np.arange(len(values))) >> np.uint32(32 - FRACTION_BITS)
        level = ((fixed + words) >> FRACTION_BITS).astype(np.float32)
    level = np.clip(level, np.float32(0), most)
    negative = np.signbit(values)
    codes = level.astype(np.uint8) + (negative.astype(np.uint8) << np.uint8(bits - 1))
    body = np.concatenate([rounded_up.view(np.uint8), parts, _pack(codes, bits)])
    return body, _signed(low, level, step, negative)


def decode(codes: Bytes, indices: Indices, bits: int) -> Values:
    """Return the values float32 [k] of `encode`.

    Raises
    ------
    PayloadError
        If `encode` cannot have produced the codes for these indices.
    """
    begins = chunk_begins(indices)
    check_length(len(codes), len(begins), len(indices), bits)
    cut = SCALE_BYTES * len(begins)
    highs, parts = codes[: 2 * len(begins)].copy().view("<u2"), codes[2 * len(begins) : cut]
    if not ((highs >= LEAST_HIGH) & (highs <= MOST_HIGH) | (highs == 0) & (parts == 0)).all():
        raise invalid_scale()
    low, step = _levels(_as_float32(highs), parts, begins, len(indices), bits)
    found = _unpack(codes[cut:], bits)
    if found[len(indices) :].any():
        raise rest_is_set()
    found = found[: len(indices)]
    level = (found & np.uint8(2 ** (bits - 1) - 1)).astype(np.float32)
    return _signed(low, level, step, found >> np.uint8(bits - 1) != 0)


def chunk_begins(indices: Indices) -> Indices:
    """Return which of the values is the first of each chunk that has values, int64 [chunks]."""
    chunks = indices >> CHUNK_BITS
    return np.flatnonzero(np.diff(chunks, prepend=-1))


def value_bytes(chunks: int, count: int, bits: int) -> int:
    """Return the bytes of `count` values in `chunks` chunks."""
    return SCALE_BYTES * chunks + (count * bits + 7) // 8


def check_length(length: int, chunks: int, count: int, bits: int) -> None:
    """Raise PayloadError unless codes of this length can be those of `count` values in `chunks` chunks."""
    if length != value_bytes(chunks, count, bits):
        raise PayloadError(
            f"codes of {count} values of {bits} bits in {chunks} chunks need {value_bytes(chunks, count, bits)} bytes; "
            f"got {length}: they are truncated or too long"
        )


def out_of_bounds() -> DataError:
    """Return the error for values that have no level."""
    return DataError("sparse values have a NaN, an infinity or a magnitude above 2**127: clip the gradients before")


def invalid_scale() -> PayloadError:
    """Return the error for a scale that no chunk has."""
    return PayloadError("codes of values have a scale that no chunk has: they are damaged")


def rest_is_set() -> PayloadError:
    """Return the error for bits behind the last value."""
    return PayloadError("codes of values have bits set after the last value: they are damaged")


def _as_float32(rounded: NDArray[np.uint16]) -> Values:
    values: Values = (rounded.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values


def _levels(highs: Values, parts: Bytes, begins: Indices, count: int, bits: int) -> tuple[Values, Values]:
    """Return the lowest level and the step of each value, float32 [count]."""
    lows = highs * (parts.astype(np.float32) / np.float32(256))
    steps = (highs - lows) / np.float32(2 ** (bits - 1) - 1)
    lengths = np.diff(begins, append=count)
    return np.repeat(lows, lengths), np.repeat(steps, lengths)


def _signed(low: Values, level: Values, step: Values, negative: NDArray[np.bool_]) -> Values:
    values: Values = low + level * step
    np.negative(values, out=values, where=negative)
    return values


def _pack(codes: Bytes, bits: int) -> Bytes:
    """Return codes of 2, 4 or 8 bits side by side, the first in the lowest bits."""
    each = 8 // bits
    rows = np.zeros((-(-len(codes) // each), each), np.uint8)
    rows.reshape(-1)[: len(codes)] = codes
    rows <<= np.arange(0, 8, bits, dtype=np.uint8)
    packed: Bytes = np.bitwise_or.reduce(rows, axis=1)
    return packed


def _unpack(packed: Bytes, bits: int) -> Bytes:
    codes: Bytes = packed[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8(2**bits - 1)
    return codes.reshape(-1)
