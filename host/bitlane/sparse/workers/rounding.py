"""Gradients as integers in units of `UNIT`, and rows of integers as ternary ones.

An integer above 2^24 in size is a float32 without a rest, as smaller ones are: so a server's float32 arithmetic gets
what the worker has counted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bitlane.sparse.parameters import rows as parameter_rows
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.servers import row_kernels
from bitlane.sparse.servers.row_codecs import FRACTION_BITS
from bitlane.sparse.servers.row_kernels import round_up, uniform

EXACT = 1 << 24  # float32 has all integers up to it
LIMIT = (1 << 31) - (1 << 7)  # the largest size, in units; the largest float32 below 2^31
_ONE = float(1 << FRACTION_BITS)


@kernel(parameter_rows, row_kernels)
def to_units(gradients: Any, bits: int, seed: Any, out: Any) -> int:
    """Round gradients [n, values] to int64 in units of `UNIT`; return the first row that is too large, or -1.

    With ``bits=0`` to the nearest. Else up or down at random, right on average, to multiples of a power of two: each
    row's smallest with which sizes are below ``2^bits``.
    """
    for i in range(gradients.shape[0]):
        largest = 0.0
        for j in range(gradients.shape[1]):
            size = abs(np.float64(gradients[i, j])) * _ONE
            if not size <= LIMIT:
                return i
            largest = max(largest, size)
        step = 1.0
        while bits > 0 and largest > step * ((1 << bits) - 1):
            step *= 2.0
        for j in range(gradients.shape[1]):
            scaled = np.float64(gradients[i, j]) * _ONE / step
            if bits == 0:
                out[i, j] = np.int64(np.rint(scaled))
            else:
                low = math.floor(scaled)
                draw = uniform(seed, i * gradients.shape[1] + j)
                out[i, j] = np.int64((low + (1.0 if draw < scaled - low else 0.0)) * step)
    return -1


@kernel()
def add_rows(rows: Any, places: Any, totals: Any) -> int:
    """Add ``rows[places[i]]`` to ``totals[i]``, int64 [n, values], where the place is not -1; return the first row that
    is too large, or -1. Sums above 2^24 in size are rounded to float32.
    """
    for i in range(len(places)):
        for j in range(totals.shape[1]):
            total = totals[i, j]
            if places[i] >= 0:
                total += rows[places[i], j]
            if abs(total) > EXACT:
                if abs(total) > LIMIT:
                    return i
                total = np.int64(np.float32(total))
            totals[i, j] = total
    return -1


@kernel(parameter_rows, row_kernels)
def to_ternary(rows: Any, seed: Any, symbols: Any, scales: Any) -> None:
    """Round integers [n, values] to symbols -1, 0, 1, int8, times a scale, at random and right on average.

    The scale is the row's largest size, rounded up to a code of `scales_of` (Wen et al., TernGrad, 2017, equation 1).
    """
    for i in range(rows.shape[0]):
        largest = np.int64(0)
        for j in range(rows.shape[1]):
            largest = max(largest, abs(np.int64(rows[i, j])))
        code = round_up(largest)
        scales[i] = code
        scale = largest if code < 16 else (8 + code % 8) << (code // 8 - 1)
        for j in range(rows.shape[1]):
            number = np.int64(rows[i, j])
            draw = uniform(seed, i * rows.shape[1] + j) * scale
            symbols[i, j] = 0 if draw >= abs(number) else (1 if number > 0 else -1)
