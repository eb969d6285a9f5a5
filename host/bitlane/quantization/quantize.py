"""From scaled values to stored integers: base codes and draw codes.

[-1, 1] is divided into ``2**base_bits`` equal intervals. A base code is the number of an interval; a draw bit selects
one of its two ends. The random generator is used row by row: blocks of rows passed in sequence with one generator give
the same bits as a single call.
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
    """Return the interval of each value.

    Parameters
    ----------
    values : float array [rows, n]
        Scaled to ``[-precision.limit, precision.limit]``. Values outside are clipped.
    precision : Precision
        `sampling` and `base_bits` are used.
    rng : numpy.random.Generator, optional
        Needed for naive sampling only, which draws one of the two middles around the value.

    Returns
    -------
    uint32 array [rows, n]
        0 to ``2**base_bits - 1``.

    Raises
    ------
    DataError
        Naive sampling without a generator.
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
    """Return two independent draws of an end of the interval of each value (ZipML, section 2.2, eq. 6).

    A draw is 1, the upper end, with the probability that makes its expectation equal to the value: the position of the
    value in the interval, to 24 bits.

    Parameters
    ----------
    values : float array [rows, n]
        Scaled to [-1, 1].
    precision : Precision
        `base_bits` is used.
    rng : numpy.random.Generator
        Gives 2 n numbers for each row.

    Returns
    -------
    uint8 array [rows, n]
        ``2 * u1 + u2``.
    """
    codes = np.empty(values.shape, np.uint8)
    last = (1 << precision.base_bits) - 1
    for rows in blocks(values.shape):
        position = _position(values[rows], precision)
        position -= np.clip(np.floor(position), 0, last)
        codes[rows] = draw_ends(position, rng)
    return codes


def draw_ends(position: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return two independent draws for each position inside an interval.

    Parameters
    ----------
    position : float64 array [rows, n]
        Probability of a 1, from 0 to 1, used to 24 bits.
    rng : numpy.random.Generator
        Gives 2 n numbers for each row.

    Returns
    -------
    uint8 array [rows, n]
        ``2 * u1 + u2``.
    """
    upper = position.astype(np.float32)
    uniform = rng.random((*position.shape, 2), dtype=np.float32)
    u1, u2 = uniform[..., 0] < upper, uniform[..., 1] < upper
    codes = u1.astype(np.uint8)
    codes <<= np.uint8(1)
    codes |= u2.view(np.uint8)
    return codes


def _position(values: NDArray[np.floating], precision: Precision) -> NDArray[np.float64]:
    """Return the positions of values in intervals: 0 for -1, ``2**base_bits`` for 1."""
    position: NDArray[np.float64] = values + np.float64(1)
    position *= 0.5 * (1 << precision.base_bits)
    return position


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of rows with about `BLOCK` values each."""
    rows, n = shape
    step = max(1, BLOCK // max(1, n))
    for start in range(0, rows, step):
        yield slice(start, start + step)
