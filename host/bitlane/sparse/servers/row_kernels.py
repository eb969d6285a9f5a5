"""Loops that round rows and pack them into bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.rows import mix
from bitlane.sparse.servers import bit_streams
from bitlane.sparse.servers.bit_streams import get, put

SYMBOLS = 5  # of a byte: 3^5 = 243
HALF_LARGEST = 65504.0
_ROW_HEAD = 10  # bits: shift and order
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIFORM = 1.0 / (1 << 53)


@inner
def uniform(seed: np.uint64, number: int) -> Any:
    """Return draw `number` of a seed, uint64: in [0, 1), a multiple of 2^-53."""
    return float(mix(seed + np.uint64(number + 1) * _GOLDEN) >> np.uint64(11)) * _UNIFORM


@inner
def round_up(number: np.int64) -> Any:
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


def scale(code: int) -> Any:
    """Return the scale of a code of `round_up`, int64."""
    return np.int64(code) if code < 16 else np.int64(8 + code % 8) << np.int64(code // 8 - 1)


scale_of = inner(scale)  # for kernels


@kernel(parameter_rows)
def to_half(values: NDArray[np.float32], seed: np.uint64, out: NDArray[np.uint16]) -> None:
    """Round float32 [n] to the bits of float16, uint16 [n]: up or down at random, right on average."""
    bits = values.view(np.uint32)
    for i in range(len(values)):
        sign, size = (bits[i] >> np.uint32(16)) & np.uint32(0x8000), abs(np.float64(values[i]))
        if size != size:
            half = np.int64(0x7E00)
        elif size >= HALF_LARGEST:
            half = np.int64(0x7BFF)
        else:
            exponent = max(math.frexp(size)[1], -13) if size > 0 else -13  # size < 2^exponent; subnormal below 2^-14
            scaled = math.ldexp(size, 11 - exponent)
            low = math.floor(scaled)
            number = np.int64(low) + np.int64(uniform(seed, i) < scaled - low)
            half = number + ((exponent + 13) << 10)  # a carry of the mantissa raises the exponent
        out[i] = np.uint16(np.int64(sign) | half)


@kernel(parameter_rows)
def to_int8(rows: NDArray[np.float32], seed: np.uint64, scales: NDArray[np.float32], out: NDArray[np.int8]) -> None:
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
def pack_symbols(symbols: NDArray[np.int8], data: NDArray[np.uint8]) -> None:
    """Write -1, 0 and 1 as digits of base 3, five to a byte; `data` is zeros."""
    for byte in range(len(data)):
        number = 0
        for i in range(min((byte + 1) * SYMBOLS, len(symbols)) - 1, byte * SYMBOLS - 1, -1):
            number = 3 * number + symbols[i] + 1
        data[byte] = number


@kernel()
def unpack_symbols(data: NDArray[np.uint8], symbols: NDArray[np.int8]) -> None:
    """Undo `pack_symbols`, for bytes up to 242."""
    for byte in range(len(data)):
        number = np.int64(data[byte])
        for i in range(byte * SYMBOLS, min((byte + 1) * SYMBOLS, len(symbols))):
            symbols[i] = number % 3 - 1
            number //= 3


@inner
def folded(number: np.int64, shift: int) -> Any:
    """Return ``number >> shift``, int64, as one that is not negative: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    low = number >> shift
    return (low << 1) ^ (low >> 63)


@inner
def length_of(number: np.int64) -> int:
    """Return how many bits a number has, int64 >= 0."""
    length, rest = 0, number
    for half in (32, 16, 8, 4, 2, 1):
        if rest >> half > 0:
            rest >>= half
            length += half
    return int(length + rest)


@inner
def shift_of(row: NDArray[np.int32]) -> int:
    """Return how many low bits are 0 in all numbers of a row, at most 31."""
    union = np.int64(1 << 31)
    for number in row:
        union |= np.int64(number)
    shift = 0
    while (union >> shift) & 1 == 0:
        shift += 1
    return shift


@inner
def order_of(row: NDArray[np.int32], shift: int) -> Any:
    """Return the order, 0 to 31, that writes a row with the fewest bits, and the bits."""
    best, order = -1, 0
    for candidate in range(32):
        bits = 0
        for number in row:
            bits += 2 * length_of(folded(np.int64(number), shift) + (1 << candidate)) - 1 - candidate
        if 0 <= best < bits:
            break
        best, order = bits, candidate
    return order, best


@kernel(bit_streams)
def size_of_rows(rows: NDArray[np.int32]) -> int:
    """Return the bits that `pack_rows` writes."""
    bits = 0
    for row in rows:
        bits += _ROW_HEAD + order_of(row, shift_of(row))[1]
    return bits


@kernel(bit_streams)
def pack_rows(rows: NDArray[np.int32], data: NDArray[np.uint8]) -> None:
    """Write int32 rows to zeros: common low zeros are left out, the rest in exponential Golomb codes (Teuhola, 1978).

    A row begins with 5 bits each for the shift s and the order k. A number x is folded to z >= 0 after the shift;
    ``z + 2^k`` has n bits. They are written as n - 1 - k ones, a zero, and the low n - 1 bits.
    """
    at = 0
    for row in rows:
        shift = shift_of(row)
        order, _ = order_of(row, shift)
        at = put(data, at, np.uint64(shift | order << 5), _ROW_HEAD)
        for number in row:
            shown = folded(np.int64(number), shift) + (1 << order)
            length = length_of(shown) - 1
            at = put(data, at, np.uint64((1 << (length - order)) - 1), length - order + 1)
            at = put(data, at, np.uint64(shown), length)


@kernel(bit_streams)
def unpack_rows(data: NDArray[np.uint8], rows: NDArray[np.int32]) -> int:
    """Undo `pack_rows`; return the bits read, or -1 if the data is damaged."""
    end = 8 * len(data)
    at = 0
    for i in range(rows.shape[0]):
        if at + _ROW_HEAD > end:
            return -1
        shift, order = np.int64(get(data, at, 5)), np.int64(get(data, at + 5, 5))
        at += _ROW_HEAD
        for j in range(rows.shape[1]):
            length = order
            while at < end and get(data, at, 1) == 1:
                length += 1
                at += 1
            at += 1
            if length > 32 or at + length > end:
                return -1
            number = np.int64(get(data, at, length)) + (1 << length) - (1 << order)
            rows[i, j] = np.int32((number >> 1 ^ -(number & 1)) << shift)
            at += length
    return at
