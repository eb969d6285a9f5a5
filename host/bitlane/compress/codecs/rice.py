"""The indices of a sparse vector as Golomb-Rice codes of their gaps (Golomb, 1966; Rice and Plaunt, 1971).

    gap = zeros before an index,  gap = q * 2**r + low:  q zeros and a one in the unary string, r bits in the low string

The parameter r is the best for these gaps. The two strings are separate, so that encoding and decoding are whole-array
operations. For k indices in a vector of n values, the codes need at most k (1 + r) + (n - k) / 2**r bits for every r,
wherever the indices are, and a few per cent more than the entropy log2 C(n, k) for random indices.

| bytes | |
| --- | --- |
| 1 to 8 | 64 k + r, seven bits a byte, lowest first; all bytes but the last have their highest bit set (LEB128) |
| (k r + 7) // 8 | low bits of each gap, the first gap's in the lowest bits, the least significant first |
| the rest | the unary string, first bit lowest; its last byte holds the last one |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .packing import Bytes
from .wire import PayloadError

Indices = NDArray[np.int64]

MAX_LENGTH = 2**48  # of a vector, so that no sum of gaps overflows
MAX_PREFIX_BYTES = 8  # at most, for 2**48 indices
PARAMETERS = range(48)


def encode(indices: Indices, n: int) -> Bytes:
    """Encode indices int64 [k], ascending, from 0 to n - 1, as uint8.

    Raises
    ------
    DataError
        For other indices, or n above 2**48.
    """
    if not 0 <= n <= MAX_LENGTH:
        raise DataError(f"n={n}: a vector of indices has 0 to 2**48 values")
    if indices.dtype != np.int64 or indices.ndim != 1:
        raise DataError(f"indices are {indices.dtype} {indices.shape}; int64 [k] is needed")
    gaps = _gaps(indices)
    if len(indices) and (gaps.min() < 0 or indices[-1] >= n):
        raise DataError(f"indices must be strictly ascending, from 0 to at most {n - 1}")
    parameter = best_parameter(gaps, n)
    shifted = gaps >> parameter
    ones = _positions(shifted)
    unary = np.zeros(int(ones[-1]) + 1 if len(ones) else 0, np.uint8)
    unary[ones] = 1
    low = np.empty((len(gaps), parameter), np.uint8)
    for bit in range(parameter):
        np.right_shift(gaps, bit, out=shifted)
        np.bitwise_and(shifted, 1, out=low[:, bit], casting="unsafe")
    strings = [np.packbits(bits, bitorder="little") for bits in (low, unary)]
    return np.concatenate([prefix(64 * len(indices) + parameter), *strings])


def decode(codes: Bytes, n: int) -> Indices:
    """Return the indices that `encode` was given.

    Memory is bounded by a fixed multiple of the codes' length.

    Parameters
    ----------
    codes : uint8 [bytes]
    n : int
        Length of the vector.

    Raises
    ------
    PayloadError
        If `encode` cannot have produced the codes for a vector of length n.
    """
    count, parameter, begin = read_prefix(codes)
    if not 0 <= n <= MAX_LENGTH or parameter not in PARAMETERS:
        raise PayloadError(f"invalid codes of indices: parameter {parameter}, vector of {n} values")
    cut = begin + (count * parameter + 7) // 8
    ones = np.flatnonzero(np.unpackbits(codes[cut:], bitorder="little"))
    end = int(ones[-1]) + 1 if len(ones) else 0
    if cut > len(codes) or len(ones) != count or (end + 7) // 8 != len(codes) - cut:
        raise PayloadError(f"codes of {count} indices are truncated or too long: {len(codes)} bytes")
    gaps = _gaps(ones)
    del ones  # indices are the largest arrays of a sparse compressor
    _add_low_bits(gaps, codes[begin:cut], parameter, n)
    if gaps.sum(dtype=np.float64) > n:  # checked in float64, so that no sum below overflows
        raise out_of_range(n)
    indices = _positions(gaps)
    if count and indices[-1] >= n:
        raise out_of_range(n)
    return indices


def read_prefix(codes: Bytes) -> tuple[int, int, int]:
    """Return the number of indices, the parameter r, and the length of the prefix that encodes them.

    Raises
    ------
    PayloadError
        If the prefix is truncated.
    """
    value, length = read_number(codes)
    return value >> 6, value & 63, length


def read_number(codes: Bytes) -> tuple[int, int]:
    """Return the number that `prefix` encoded and the length of its code; raise PayloadError if it is truncated."""
    value = 0
    for at, byte in enumerate(codes[:MAX_PREFIX_BYTES].tolist()):
        value |= (byte & 127) << 7 * at
        if byte < 128:
            return value, at + 1
    raise PayloadError(f"codes of indices have no valid prefix: {codes[:MAX_PREFIX_BYTES].tobytes().hex()!r}")


def prefix(value: int) -> Bytes:
    """Return a number as LEB128."""
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return np.array([128 + group for group in groups[:-1]] + groups[-1:], np.uint8)


def best_parameter(gaps: NDArray[np.int64], n: int) -> int:
    """Return the smallest r that makes the codes of gaps int64 [k], in a vector of n values, shortest."""
    return shortest(len(gaps), [int((gaps >> parameter).sum()) for parameter in tried_parameters(len(gaps), n)])


def tried_parameters(count: int, n: int) -> range:
    """Return the values of r that can be the best of `count` gaps in a vector of n values.

    From the first r on with n <= count * 2**r codes grow: one bit more shortens the unary string by at most the sum of
    the quotients, which is at most `count` there, and lengthens the low string by `count`.
    """
    return range((n // count).bit_length() + 1 if count else 1)


def shortest(count: int, quotients: Sequence[int]) -> int:
    """Return the best r of `count` gaps, from the sums of their quotients for r = 0, 1 and so on."""
    return min(range(len(quotients)), key=lambda parameter: count * parameter + quotients[parameter])


def _gaps(positions: Indices) -> Indices:
    """Return the zeros before each position, int64 [k]."""
    gaps: Indices = positions.copy()
    gaps[1:] -= positions[:-1]
    gaps[1:] -= 1
    return gaps


def _positions(gaps: Indices) -> Indices:
    """Overwrite gaps int64 [k] with the positions, and return them: the inverse of `_gaps`."""
    gaps += 1
    np.cumsum(gaps, out=gaps)
    gaps -= 1
    return gaps


def _add_low_bits(quotients: Indices, low: Bytes, parameter: int, n: int) -> None:
    """Overwrite quotients with the gaps that have this low string."""
    if len(quotients) and quotients.max() > n >> parameter:
        raise out_of_range(n)
    bits = np.unpackbits(low, bitorder="little")
    if bits[len(quotients) * parameter :].any():
        raise PayloadError("codes of indices have bits set after the last index")
    quotients <<= parameter
    for bit in range(parameter):
        row = bits[bit : len(quotients) * parameter : parameter].astype(np.int64)
        row <<= bit
        quotients |= row


def out_of_range(n: int) -> PayloadError:
    """Return the error for indices of n or more."""
    return PayloadError(f"codes of indices reach beyond the {n} values of their vector")
