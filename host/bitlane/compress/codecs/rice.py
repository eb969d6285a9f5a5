"""The places of a sparse set as Golomb-Rice codes of the gaps between them (Golomb, 1966; Rice and Plaunt, 1971).

    gap = zeros before a place,  gap = q * 2**r + low:  q zeros and a one in the unary string, r bits in the low string

The parameter r is the best for these gaps. Both strings are apart, so that coding and decoding are operations on whole
arrays. In bits, k places of n need at most k (1 + r) + (n - k) / 2**r for every r, wherever they lie, and a few per
cent more than the entropy log2 C(n, k) where they lie at random.

| bytes | |
| --- | --- |
| 1 to 8 | 64 k + r, seven bits a byte, the lowest first; all bytes but the last have their highest bit set (LEB128) |
| (k r + 7) // 8 | low bits of each gap, the first gap's in the lowest bits, the least significant first |
| the rest | the unary string, first bit lowest; its last byte holds the last one |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .packing import Bytes
from .wire import PayloadError

Places = NDArray[np.int64]

MOST = 2**48  # values that a vector can have: so that no sum of gaps overflows
_FIELD_BYTES = 8  # at most: as many as 2**48 places need
_PARAMETERS = range(48)


def encode(places: Places, n: int) -> Bytes:
    """The codes, uint8, of places int64 [k], rising, from 0 to n - 1. DataError for others, or n above 2**48."""
    if not 0 <= n <= MOST:
        raise DataError(f"n={n}: places lie in a vector of at most 2**48 values")
    if places.dtype != np.int64 or places.ndim != 1:
        raise DataError(f"places are {places.dtype} {places.shape}: int64 [k] is coded")
    gaps = np.diff(places, prepend=-1) - 1
    if len(places) and (gaps.min() < 0 or places[-1] >= n):
        raise DataError(f"places have to rise from 0 to at most {n - 1}, each once")
    parameter = best_parameter(gaps)
    ones = np.cumsum((gaps >> parameter) + 1) - 1
    unary = np.zeros(int(ones[-1]) + 1 if len(ones) else 0, np.uint8)
    unary[ones] = 1
    low = np.empty((len(gaps), parameter), np.uint8)
    for bit in range(parameter):
        low[:, bit] = gaps >> bit & 1
    strings = [np.packbits(bits, bitorder="little") for bits in (low, unary)]
    return np.concatenate([_field(64 * len(places) + parameter), *strings])


def decode(codes: Bytes, n: int) -> Places:
    """The places that `encode` was given, from uint8 [bytes].

    Raises
    ------
    PayloadError: what no `encode` for n values makes. Memory is a fixed multiple of the codes' bytes.
    """
    places, parameter, begin = fields(codes)
    if not 0 <= n <= MOST or parameter not in _PARAMETERS:
        raise PayloadError(f"no codes of places: parameter {parameter}, in a vector of {n} values")
    cut = begin + (places * parameter + 7) // 8
    unary = np.unpackbits(codes[cut:], bitorder="little")
    ones = np.flatnonzero(unary)
    end = int(ones[-1]) + 1 if len(ones) else 0
    if cut > len(codes) or len(ones) != places or (end + 7) // 8 != len(codes) - cut:
        raise PayloadError(f"codes of {places} places are cut short, or too long: {len(codes)} bytes")
    gaps = _joined(np.diff(ones, prepend=-1) - 1, codes[begin:cut], parameter, n)
    if gaps.sum(dtype=np.float64) > n:  # and no sum below overflows
        raise _beyond(n)
    found: Places = np.cumsum(gaps + 1) - 1
    if places and found[-1] >= n:
        raise _beyond(n)
    return found


def fields(codes: Bytes) -> tuple[int, int, int]:
    """What codes begin with: places, parameter, and the bytes that say so. PayloadError where they are cut short."""
    value = 0
    for at, byte in enumerate(codes[:_FIELD_BYTES].tolist()):
        value |= (byte & 127) << 7 * at
        if byte < 128:
            return value >> 6, value & 63, at + 1
    raise PayloadError(f"codes of places do not begin with their number: {codes[:_FIELD_BYTES].tobytes().hex()!r}")


def _field(value: int) -> Bytes:
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return np.array([128 + group for group in groups[:-1]] + groups[-1:], np.uint8)


def best_parameter(gaps: NDArray[np.int64]) -> int:
    """The r that makes codes of gaps int64 [k] shortest, the least of several."""
    best, bits = 0, int(gaps.sum()) + len(gaps)
    parameter = 1
    while len(gaps) * (1 + parameter) < bits:
        now = len(gaps) * (1 + parameter) + int((gaps >> parameter).sum())
        if now < bits:
            best, bits = parameter, now
        parameter += 1
    return best


def _joined(quotients: Places, low: Bytes, parameter: int, n: int) -> Places:
    """Gaps of their quotients and the low string."""
    if len(quotients) and quotients.max() > n >> parameter:
        raise _beyond(n)
    bits = np.unpackbits(low, bitorder="little")
    if bits[len(quotients) * parameter :].any():
        raise PayloadError("codes of places have bits set behind the last place")
    gaps = quotients << parameter
    for bit in range(parameter):
        gaps |= bits[bit : len(quotients) * parameter : parameter].astype(np.int64) << bit
    return gaps


def _beyond(n: int) -> PayloadError:
    return PayloadError(f"codes of places reach beyond the {n} values of their vector")
