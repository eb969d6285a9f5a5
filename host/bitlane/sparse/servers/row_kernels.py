"""Loops that round rows and pack them into bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.rows import mix
from bitlane.sparse.servers import bit_streams
from bitlane.sparse.servers.bit_streams import get, put

SYMBOLS = 5  # of a byte: 3^5 = 243
HALF_LARGEST = 65504.0
WIDTH_BITS = 6  # that tell a row's bits a value
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIFORM = 1.0 / (1 << 53)


@inner
def uniform(seed: Any, place: int) -> Any:
    """Return draw `place` of a seed, uint64: in [0, 1), a multiple of 2^-53."""
    return float(mix(seed + np.uint64(place + 1) * _GOLDEN) >> np.uint64(11)) * _UNIFORM


@inner
def round_up(number: Any) -> Any:
    """Return the code of the smallest scale that is at least `number`, int64, 0 to 15 * 2^30.

    A scale has the bits of a small floating-point number: codes 0 to 7 are the scales 0 to 7, and code ``8 e + f``
    with e >= 1 is ``(8 + f) * 2^(e - 1)``.
    """
    shift = 0
    while (number >> shift) > 15:
        shift += 1
    top = number >> shift
    if (top << shift) < number:
        top += 1  # 16 is 8 of the next exponent: the code counts on
    return np.int64(8 * shift + top)


@kernel(parameter_rows)
def to_half(values: Any, seed: Any, out: Any) -> None:
    """Round float32 [n] to the bits of float16, uint16 [n]: up or down at random, right on average."""
    bits = values.view(np.uint32)
    for i in range(len(values)):
        sign, size = (bits[i] >> np.uint32(16)) & np.uint32(0x8000), abs(np.float64(values[i]))
        if size != size:
            found = np.int64(0x7E00)
        elif size >= HALF_LARGEST:
            found = np.int64(0x7BFF)
        else:
            exponent = max(math.frexp(size)[1], -13) if size > 0 else -13  # size < 2^exponent; subnormal below 2^-14
            scaled = math.ldexp(size, 11 - exponent)
            low = math.floor(scaled)
            number = np.int64(low) + np.int64(uniform(seed, i) < scaled - low)
            found = number + ((exponent + 13) << 10)  # a carry of the mantissa raises the exponent
        out[i] = np.uint16(np.int64(sign) | found)


@kernel(parameter_rows)
def to_int8(rows: Any, seed: Any, scales: Any, out: Any) -> None:
    """Round rows [n, values] to multiples of a scale, float32 [n], each the row's largest size over 127."""
    for i in range(rows.shape[0]):
        largest = 0.0
        for j in range(rows.shape[1]):
            largest = max(largest, abs(np.float64(rows[i, j])))
        scale = np.float32(largest / 127.0)
        if np.float64(scale) * 127.0 < largest:
            scale = np.nextafter(scale, np.float32(np.inf))
        scales[i] = scale
        for j in range(rows.shape[1]):
            number = 0.0
            if scale > 0:
                scaled = np.float64(rows[i, j]) / np.float64(scale)
                low = math.floor(scaled)
                number = low + (1.0 if uniform(seed, i * rows.shape[1] + j) < scaled - low else 0.0)
            out[i, j] = np.int8(number)


@kernel()
def pack_symbols(symbols: Any, data: Any) -> None:
    """Write -1, 0 and 1 as digits of base 3, five to a byte; `data` is zeros."""
    for byte in range(len(data)):
        number = 0
        for i in range(min((byte + 1) * SYMBOLS, len(symbols)) - 1, byte * SYMBOLS - 1, -1):
            number = 3 * number + symbols[i] + 1
        data[byte] = number


@kernel()
def unpack_symbols(data: Any, symbols: Any) -> None:
    """Undo `pack_symbols`, for bytes up to 242."""
    for byte in range(len(data)):
        number = np.int64(data[byte])
        for i in range(byte * SYMBOLS, min((byte + 1) * SYMBOLS, len(symbols))):
            symbols[i] = number % 3 - 1
            number //= 3


@kernel(bit_streams)
def pack_rows(rows: Any, data: Any, write: bool) -> int:
    """Write int32 rows with as many bits a value as each row needs, and that number before it; return the bits.

    With ``write=False``, `data` is not touched.
    """
    at = 0
    for i in range(rows.shape[0]):
        folded, width = np.uint64(0), 0
        for j in range(rows.shape[1]):
            folded |= np.uint64((np.int64(rows[i, j]) << 1) ^ (np.int64(rows[i, j]) >> 63))
        while folded != 0:
            folded >>= np.uint64(1)
            width += 1
        if write:
            at = put(data, at, np.uint64(width), WIDTH_BITS)
            for j in range(rows.shape[1]):
                number = np.int64(rows[i, j])
                at = put(data, at, np.uint64((number << 1) ^ (number >> 63)), width)
        else:
            at += WIDTH_BITS + rows.shape[1] * width
    return at


@kernel(bit_streams)
def unpack_rows(data: Any, rows: Any) -> int:
    """Undo `pack_rows`; return the bits read, or -1 if the data is damaged."""
    end = 8 * len(data)
    at = 0
    for i in range(rows.shape[0]):
        if at + WIDTH_BITS > end:
            return -1
        width = np.int64(get(data, at, WIDTH_BITS))
        at += WIDTH_BITS
        if width > 32 or at + width * rows.shape[1] > end:
            return -1
        for j in range(rows.shape[1]):
            number = get(data, at, width)
            rows[i, j] = np.int32(np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)))
            at += width
    return at
