"""Encoding in one pass over the rows, compiled by numba: positions, codes, random words, draws and digits.

`positions`, `quantize`, `contract.draws` and `contract.digits` are the same arithmetic in numpy, and `kernels.c` in C.
The loops over the features of a row keep what they make in arrays of one row, which a cache holds, so that LLVM makes
vector instructions of each loop. Importing this file needs numba.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bitlane.contract.draws import DRAW_ROUNDS
from bitlane.contract.encoding import POSITION_FRACTION
from bitlane.contract.prng import ROUND_KEYS
from bitlane.support.jit import machine_code

from .positions import PositionMap
from .quantize import CUT

INTERVAL = 2.0**POSITION_FRACTION
TO_INTERVALS = 2.0**-POSITION_FRACTION
HALF_UNIT, TO_DRAWS = 2.0 ** (CUT - 1), 2.0**-CUT
KEYS = ROUND_KEYS[:DRAW_ROUNDS]

# Eight digits in the bytes of a word: pairs of bytes become nibbles, and a product brings the four nibbles together.
DIGIT = np.uint64(0x0303030303030303)
NIBBLE = np.uint64(0x000F000F000F000F)
GATHER = np.uint64(1 << 48 | 1 << 36 | 1 << 24 | 1 << 12)

Array = Any  # of the types that the docstrings name: numba infers them
_loop = partial(machine_code, nogil=True)


@_loop
def _positions(row: Array, mapped: PositionMap, runs: Array, out: Array) -> None:
    """Write the positions, float64 [s], of a row of X, [n] of any type."""
    multipliers, offsets = mapped.multipliers, mapped.offsets
    top = INTERVAL * 2.0**mapped.base_bits
    for run in range(len(runs)):
        first, column = np.uint64(runs[run, 0]), np.uint64(runs[run, 1])
        for j in range(np.uint64(runs[run, 2])):
            position = np.floor(np.float64(row[column + j]) * multipliers[first + j]) + offsets[first + j]
            position = position if position > 0.0 else 0.0
            out[first + j] = position if position < top else top


@_loop
def _intervals(positions: Array, last: float, codes: Array) -> None:
    """Write the base codes, uint32 [s], of positions; `last` is the largest code."""
    for j in range(len(positions)):
        code = np.floor(positions[j] * TO_INTERVALS)
        codes[j] = np.uint32(np.int64(code if code < last else last))


@_loop
def _thresholds(positions: Array, last: float, low: Array, full: Array) -> None:
    """Write thresholds of draws: 16 bits, uint16 [s], and the bit above, uint8 [s], with which a draw is always 1."""
    for j in range(len(positions)):
        code = np.floor(positions[j] * TO_INTERVALS)
        code = code if code < last else last
        threshold = np.int32((positions[j] - code * INTERVAL + HALF_UNIT) * TO_DRAWS)
        low[j] = np.uint16(threshold)
        full[j] = np.uint8(threshold >> 16)


@_loop
def _from_middles(positions: Array, last: float) -> None:
    """Move positions by half an interval, as naive sampling needs them, in place."""
    for j in range(len(positions)):
        position = positions[j] - 0.5 * INTERVAL
        position = position if position > 0.0 else 0.0
        positions[j] = position if position < last * INTERVAL else last * INTERVAL


@_loop
def _rotated(half: int, left: int) -> Any:
    return np.uint16(half << left | half >> 16 - left)


@_loop
def _words(of_row: int, feature_offsets: Array, high: Array, low: Array) -> None:
    """Write the halves, uint16 [s], of the random words of a row."""
    for j in range(len(feature_offsets)):
        word = np.uint32(of_row + feature_offsets[j])
        left, right = np.uint16(word >> np.uint32(16)), np.uint16(word)
        for key in KEYS:
            mixed = right ^ (_rotated(left, 1) & _rotated(left, 8)) ^ _rotated(left, 2) ^ np.uint16(key)
            left, right = np.uint16(mixed), left
        high[j], low[j] = left, right


@_loop
def _ends(high: Array, low: Array, threshold: Array, full: Array, codes: Array) -> None:
    """Write the draw codes, uint8 [s], of words and thresholds."""
    for j in range(len(threshold)):
        first = np.uint8(high[j] < threshold[j]) | full[j]
        second = np.uint8(low[j] < threshold[j]) | full[j]
        codes[j] = np.uint8(first << 1) | second


@_loop
def _round_up(high: Array, threshold: Array, full: Array, codes: Array) -> None:
    """Add the first draw of naive sampling to codes, uint32 [s]; the last code has a threshold of 0."""
    for j in range(len(codes)):
        codes[j] += np.uint32(np.uint8(high[j] < threshold[j]) | full[j])


@_loop
def _pack(octets: Array, digit: int, words: Array, first: int, stride: int) -> None:
    """Write digit 0 to 3 of octets, uint64 [4 chunks] of eight codes a word, as every `stride`-th word from `first`."""
    shift = np.uint64(2 * digit)
    for chunk in range(len(octets) // 4):
        word = np.uint64(0)
        for quarter in range(4):
            eight = octets[4 * chunk + quarter] >> shift & DIGIT
            eight = (eight | eight >> np.uint64(6)) & NIBBLE
            word |= eight * GATHER >> np.uint64(48) << np.uint64(16 * quarter)
        words[first + chunk * stride] = word


@_loop
def encode_draws(
    X: Array,
    mapped: PositionMap,
    runs: Array,
    of_rows: Array,
    offsets: Array,
    row_offsets: Array,
    stride: int,
    words: Array,
) -> None:
    """Write the draw words of rows for several draw sets; positions are computed once.

    Parameters
    ----------
    X : array [rows, n]
        uint8, int16, float32 or float64, in C order.
    mapped : PositionMap
    runs : int array [runs, 3]
        Stored features whose columns lie side by side: the first feature, its column, the number of features.
    of_rows : uint32 array [sets, rows]
        From `contract.draws.row_words`.
    offsets : uint32 array [s]
        From `contract.draws.feature_offsets`.
    row_offsets : int array [rows]
        Index in `words` of the first word of each row.
    stride : int
        From one word of a row to the next.
    words : uint64 array [sets, words of a region]
        The words of these rows are overwritten.
    """
    features = len(mapped.columns)
    positions = np.empty(features, np.float64)
    high, low = np.empty(features, np.uint16), np.empty(features, np.uint16)
    threshold, full = np.empty(features, np.uint16), np.empty(features, np.uint8)
    octets = np.zeros((features + 31) // 32 * 4, np.uint64)
    codes = octets.view(np.uint8)[:features]
    last = 2.0**mapped.base_bits - 1.0
    for i in range(len(X)):
        _positions(X[i], mapped, runs, positions)
        _thresholds(positions, last, threshold, full)
        for k in range(len(of_rows)):
            _words(of_rows[k, i], offsets, high, low)
            _ends(high, low, threshold, full, codes)
            _pack(octets, 0, words[k], row_offsets[i], stride)


@_loop
def encode_base(
    X: Array,
    mapped: PositionMap,
    runs: Array,
    of_rows: Array,
    offsets: Array,
    row_offsets: Array,
    stride: int,
    words: Array,
) -> None:
    """Write the base words of rows to one region, uint64 [words].

    Other parameters as for `encode_draws`; `of_rows` is uint32 [rows], and empty without naive sampling.
    """
    features, digits = len(mapped.columns), mapped.base_bits // 2
    positions = np.empty(features, np.float64)
    high, low = np.empty(features, np.uint16), np.empty(features, np.uint16)
    threshold, full = np.empty(features, np.uint16), np.empty(features, np.uint8)
    codes = np.empty(features, np.uint32)
    octets = np.zeros((features + 31) // 32 * 4, np.uint64)
    byte = octets.view(np.uint8)[:features]
    last = 2.0**mapped.base_bits - 1.0
    for i in range(len(X)):
        _positions(X[i], mapped, runs, positions)
        if len(of_rows):
            _from_middles(positions, last)
        _intervals(positions, last, codes)
        if len(of_rows):
            _thresholds(positions, last, threshold, full)
            _words(of_rows[i], offsets, high, low)
            _round_up(high, threshold, full, codes)
        for digit in range(digits):
            if digit % 4 == 0:
                for j in range(features):
                    byte[j] = np.uint8(codes[j] >> np.uint32(2 * digit))
            _pack(octets, digit % 4, words, row_offsets[i] + (digits - 1 - digit) * stride, digits * stride)
