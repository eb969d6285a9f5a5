"""Gradients as integers in units of `UNIT`, and rows of integers as ternary ones.

An integer above 2^24 in size is a float32 without a rest, as smaller ones are: so a server's float32 arithmetic gets
what the worker has counted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.servers import row_kernels
from bitlane.sparse.servers.row_codecs import FRACTION_BITS
from bitlane.sparse.servers.row_kernels import round_up, scale_of, uniform

EXACT = 1 << 24  # float32 has all integers up to it
LIMIT = (1 << 31) - (1 << 7)  # the largest size, in units; the largest float32 below 2^31
_ONE = float(1 << FRACTION_BITS)


Units = NDArray[np.int64]
Symbols = NDArray[np.int8]
Codes = NDArray[np.uint8]


@kernel(parameter_rows, row_kernels)
def to_units(gradients: NDArray[np.float32], groups: NDArray[np.int64], bits: int, seed: np.uint64, out: Units) -> int:
    """Round gradients [n, values] to int64 in units of `UNIT`; return the first row that is too large, or -1.

    With ``bits=0`` to the nearest. Else up or down at random, right on average, to multiples of a power of two: in each
    of the `groups`, int64, of a row's neighbours the smallest with which sizes are below ``2^bits``.
    """
    for i in range(gradients.shape[0]):
        start = 0
        for group in range(len(groups)):
            stop = start + groups[group]
            largest = 0.0
            for j in range(start, stop):
                size = abs(np.float64(gradients[i, j])) * _ONE
                if not size <= LIMIT:
                    return i
                largest = max(largest, size)
            step = 1.0
            while bits > 0 and largest > step * ((1 << bits) - 1):
                step *= 2.0
            for j in range(start, stop):
                scaled = np.float64(gradients[i, j]) * _ONE / step
                if bits == 0:
                    out[i, j] = np.int64(np.rint(scaled))
                else:
                    low = math.floor(scaled)
                    draw = uniform(seed, i * gradients.shape[1] + j)
                    out[i, j] = np.int64((low + (1.0 if draw < scaled - low else 0.0)) * step)
            start = stop
    return -1


@kernel()
def add_rows(rows: NDArray[np.int32], slots: NDArray[np.int64], totals: Units) -> int:
    """Add ``rows[slots[i]]`` to ``totals[i]``, int64 [n, values], where the slot is not -1; return the first row that
    is too large, or -1. Sums above 2^24 in size are rounded to float32.
    """
    for i in range(len(slots)):
        for j in range(totals.shape[1]):
            total = totals[i, j]
            if slots[i] >= 0:
                total += rows[slots[i], j]
            if abs(total) > EXACT:
                if abs(total) > LIMIT:
                    return i
                total = np.int64(np.float32(total))
            totals[i, j] = total
    return -1


@kernel(parameter_rows, row_kernels)
def to_ternary(
    rows: Units,
    groups: NDArray[np.int64],
    seed: np.uint64,
    symbols: Symbols,
    scales: Codes,
) -> None:
    """Round integers [n, values] to symbols -1, 0, 1, int8, times scales, at random and right on average.

    A scale is the largest size of a row in one of the `groups`, int64, of neighbours, rounded up to a code of
    `scales_of` (Wen et al., TernGrad, 2017, equation 1).
    """
    for i in range(rows.shape[0]):
        start = 0
        for group in range(len(groups)):
            stop = start + groups[group]
            largest = np.int64(0)
            for j in range(start, stop):
                largest = max(largest, abs(np.int64(rows[i, j])))
            code = round_up(largest)
            scales[i, group] = code
            scale = scale_of(code)
            for j in range(start, stop):
                number = np.int64(rows[i, j])
                draw = uniform(seed, i * rows.shape[1] + j) * scale
                symbols[i, j] = 0 if draw >= abs(number) else (1 if number > 0 else -1)
            start = stop


@kernel(row_kernels)
def to_nearest_ternary(rows: Units, groups: NDArray[np.int64], symbols: Symbols, scales: Codes) -> None:
    """Write the ternary rows that are nearest to integers [n, values]: symbols -1, 0, 1, int8, times scales.

    If the j largest sizes of a group are not 0, the nearest scale is their mean, and it leaves
    ``|a|^2 - (their sum)^2 / j``; the best j counts (Li et al., Ternary weight networks, 2016, equations 5 and 6). The
    scale is rounded up to a code of `scales_of`; values above half of it become 1 or -1.
    """
    sizes = np.empty(rows.shape[1], np.int64)
    for i in range(rows.shape[0]):
        start = 0
        for group in range(len(groups)):
            count = groups[group]
            for j in range(count):
                size, rank = abs(np.int64(rows[i, start + j])), j
                while rank > 0 and sizes[rank - 1] < size:
                    sizes[rank] = sizes[rank - 1]
                    rank -= 1
                sizes[rank] = size
            best, total, mean = -1.0, np.int64(0), np.int64(0)
            for j in range(count):
                total += sizes[j]
                if float(total) * total > best * (j + 1):
                    best, mean = float(total) * total / (j + 1), (total + j) // (j + 1)
            code = round_up(mean)
            scales[i, group] = code
            scale = scale_of(code)
            for j in range(start, start + count):
                number = np.int64(rows[i, j])
                symbols[i, j] = 0 if 2 * abs(number) <= scale else (1 if number > 0 else -1)
            start += count
