"""From scaled values to the integers that are stored: base codes and draw codes.

[-1, 1] is cut into `2**base_bits` equal intervals. A base code is an interval's number; a draw bit says which
of its two ends was drawn. All randomness is taken from the generator row after row, so that blocks of rows
given one after the other with one generator get the bits that a single call would give them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision
from bitlane.errors import DataError

BLOCK = 1 << 15  # values worked on at a time: what a cache holds


def base_codes(
    values: NDArray[np.floating], precision: Precision, rng: np.random.Generator | None = None
) -> NDArray[np.uint32]:
    """The interval of every value.

    Parameters
    ----------
    values: float [rows, n], scaled to `[-precision.limit, precision.limit]`; what lies outside is clipped.
    precision: of it, `sampling` and `base_bits`.
    rng: used by naive sampling alone, which draws one of the two middles around the value.

    Returns
    -------
    uint32 [rows, n], from 0 to `2**base_bits - 1`.

    Raises
    ------
    DataError: naive sampling without a generator.
    """
    codes = np.empty(values.shape, np.uint32)
    last = (1 << precision.base_bits) - 1
    naive = precision.sampling == "naive"
    for rows in blocks(values.shape):
        position = _position(values[rows], precision)
        if naive:
            if rng is None:
                raise DataError("naive sampling needs a random generator: pass rng")
            position -= 0.5
            np.clip(position, 0, last, out=position)
            low = np.floor(position)
            low += rng.random(position.shape, dtype=np.float32) < position - low
            codes[rows] = low
        else:
            codes[rows] = np.clip(position, 0, last, out=position)  # the cast cuts
    return codes


def draw_codes(values: NDArray[np.floating], precision: Precision, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Two independent draws of an end of every value's interval (ZipML, section 2.2, eq. 6).

    A draw is 1, the upper end, with the probability that makes the value's expectation right: its position in
    the interval, to 24 bits.

    Parameters
    ----------
    values: float [rows, n], scaled to [-1, 1].
    precision: of it, `base_bits`.
    rng: gives 2 n numbers a row.

    Returns
    -------
    uint8 [rows, n], `2 * u1 + u2`.
    """
    codes = np.empty(values.shape, np.uint8)
    last = (1 << precision.base_bits) - 1
    for rows in blocks(values.shape):
        position = _position(values[rows], precision)
        position -= np.clip(np.floor(position), 0, last)
        codes[rows] = draw_ends(position, rng)
    return codes


def draw_ends(position: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Two draws for each place float64 [rows, n] inside an interval: uint8 [rows, n], `2 * u1 + u2`.

    Each is 1 with the probability `position`, to 24 bits. Takes 2 n numbers a row.
    """
    upper = position.astype(np.float32)
    uniform = rng.random((*position.shape, 2), dtype=np.float32)
    u1, u2 = uniform[..., 0] < upper, uniform[..., 1] < upper
    codes = u1.astype(np.uint8)
    codes <<= np.uint8(1)
    codes |= u2.view(np.uint8)
    return codes


def _position(values: NDArray[np.floating], precision: Precision) -> NDArray[np.float64]:
    """Where values lie, in intervals: 0 for -1, `2**base_bits` for 1."""
    position: NDArray[np.float64] = values + np.float64(1)
    position *= 0.5 * (1 << precision.base_bits)
    return position


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows of about `BLOCK` values."""
    rows, n = shape
    step = max(1, BLOCK // max(1, n))
    for start in range(0, rows, step):
        yield slice(start, start + step)
