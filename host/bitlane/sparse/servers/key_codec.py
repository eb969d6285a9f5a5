"""Keys in few bytes: Rice codes of the differences between neighbours.

Keys that ascend have small differences; any other order is coded too, only longer. A key k after the key p is the
number ``k - p - 1`` modulo 2^64; before the first key, p is 2^64 - 1. Blocks of 128 numbers share a parameter b,
written in 6 bits. A number x is written as ``x >> b`` ones, a zero, and the low b bits of x (Rice, 1979). If that would
be more than 31 ones, it is written as 32 ones and all 64 bits: a jump between groups of keys costs 12 bytes.

n keys drawn at random from 2^64 take about ``66 - log2(n)`` bits each; keys that are small numbers take few bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.servers import bit_streams
from bitlane.sparse.servers.bit_streams import get, put

BLOCK = 128
_ESCAPE = 32  # ones that announce all 64 bits
_HEAD = 6  # bits of a block's parameter
_ONE = np.uint64(1)
_ONES = np.uint64((1 << _ESCAPE) - 1)

Keys = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def encode_keys(keys: Keys) -> Bytes:
    """Return keys as bytes.

    Parameters
    ----------
    keys : uint64 [n]
        In any order; ascending keys take the fewest bytes.

    Returns
    -------
    uint8 [bytes]
    """
    numbers = np.diff(keys, prepend=np.uint64(0xFFFF_FFFF_FFFF_FFFF)) - _ONE
    parameters = np.zeros(-(-len(keys) // BLOCK), np.int64)
    bits = _choose(numbers, parameters)
    data = np.zeros(-(-bits // 8), np.uint8)
    _write(numbers, parameters, data)
    return data


def decode_keys(data: Bytes, count: int) -> Keys:
    """Return the keys of `encode_keys`.

    Parameters
    ----------
    data : uint8 [bytes]
    count : int
        How many keys.

    Returns
    -------
    uint64 [count]

    Raises
    ------
    DataError
        The data is shorter or longer than the keys are.
    """
    if not 0 <= count <= 8 * len(data):  # a key takes a bit at least
        raise DataError(f"{len(data)} bytes cannot hold {count} keys: the message is damaged")
    numbers = np.empty(count, np.uint64)
    bits = _read(np.require(data, np.uint8, ("C", "ALIGNED", "WRITEABLE")), numbers)
    if bits < 0 or -(-bits // 8) != len(data):
        raise DataError(f"{len(data)} bytes do not hold {count} keys: the message is damaged")
    return np.asarray(np.cumsum(numbers + _ONE, dtype=np.uint64) - _ONE)


@kernel()
def _choose(numbers: NDArray[np.uint64], parameters: NDArray[np.int64]) -> int:
    """Write the best parameter of each block; return the bits of all blocks.

    Candidates are the parameters around the number of bits of the block's median.
    """
    total = 0
    counts = np.zeros(65, np.int64)
    for block in range(len(parameters)):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, len(numbers))
        counts[:] = 0
        for i in range(start, stop):
            length, rest = 0, numbers[i]
            while rest != 0:
                rest >>= _ONE
                length += 1
            counts[length] += 1
        median, below = 0, counts[0]
        while 2 * below < stop - start:
            median += 1
            below += counts[median]
        best = -1
        for candidate in range(max(median - 3, 0), min(median + 2, 64)):
            bits = _HEAD
            for i in range(start, stop):
                ones = numbers[i] >> np.uint64(candidate)
                bits += np.int64(ones) + 1 + candidate if ones < _ESCAPE else _ESCAPE + 64
            if best < 0 or bits < best:
                best, parameters[block] = bits, candidate
        total += best
    return total


@kernel(bit_streams)
def _write(numbers: NDArray[np.uint64], parameters: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
    at = 0
    for i in range(len(numbers)):
        low = parameters[i // BLOCK]
        if i % BLOCK == 0:
            at = put(data, at, np.uint64(low), _HEAD)
        ones = numbers[i] >> np.uint64(low)
        if ones < _ESCAPE:
            at = put(data, at, (_ONE << ones) - _ONE, np.int64(ones) + 1)
            at = put(data, at, numbers[i], low)
        else:
            at = put(data, at, _ONES, _ESCAPE)
            at = put(data, at, numbers[i], 64)


@kernel(bit_streams)
def _read(data: NDArray[np.uint8], numbers: NDArray[np.uint64]) -> int:
    """Fill `numbers`; return the bits read, or -1 if the data ends before."""
    end = 8 * len(data)
    at, low = 0, 0
    for i in range(len(numbers)):
        if i % BLOCK == 0:
            if at + _HEAD > end:
                return -1
            low = np.int64(get(data, at, _HEAD))
            at += _HEAD
        ones = 0
        while ones < _ESCAPE:
            if at >= end:
                return -1
            at += 1
            if get(data, at - 1, 1) == 0:
                break
            ones += 1
        bits = low if ones < _ESCAPE else 64
        if at + bits > end:
            return -1
        numbers[i] = get(data, at, bits)
        if ones < _ESCAPE:
            numbers[i] |= np.uint64(ones) << np.uint64(low)
        at += bits
    return at
