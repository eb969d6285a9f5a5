"""From scaled values to codes where each feature has levels of its own: the interval, and draws of its two ends.

As with uniform levels, blocks of rows given one after the other with one generator get the bits of a single call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import LEVEL
from bitlane.quantization.quantize import blocks, draw_ends
from bitlane.quantization.scaling import Floats

from .codebooks import Codebook


def codebook_codes(values: Floats, levels: Codebook) -> NDArray[np.uint32]:
    """The interval of every value; an empty one only where all of a feature's levels are alike.

    Parameters
    ----------
    values: float64 [rows, s], scaled; what lies beyond the outermost levels is clipped.
    levels: int32 [2**b + 1, s], ascending, in units of `2**-16`.

    Returns
    -------
    uint32 [rows, s], from 0 to `2**b - 1`: the number i of the interval from level i to i + 1.
    """
    codes = np.empty(values.shape, np.uint32)
    inner = _inner(levels)
    for rows in blocks(values.shape):
        codes[rows] = _intervals(_units(values[rows]), inner)
    return codes


def codebook_draws(values: Floats, levels: Codebook, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Two independent draws of an end of every value's interval, without bias (ZipML, section 2.2, eq. 6).

    Parameters
    ----------
    values, levels: as of `table_codes`.
    rng: gives 2 s numbers a row.

    Returns
    -------
    uint8 [rows, s], `2 * u1 + u2`: each is 1, the upper end, with the probability `(v - l_i) / (l_{i+1} - l_i)`, to
    24 bits.
    """
    codes = np.empty(values.shape, np.uint8)
    inner, ends, columns = _inner(levels), levels.astype(np.float64).ravel(), levels.shape[1]
    for rows in blocks(values.shape):
        units = _units(values[rows])
        low = _intervals(units, inner).astype(np.intp) * columns + np.arange(columns)
        below = ends[low]
        units -= below
        width = ends[low + columns]
        width -= below
        units /= np.maximum(width, 1.0, out=width)  # in an empty interval a value is on both ends
        codes[rows] = draw_ends(units, rng)
    return codes


def _units(values: Floats) -> Floats:
    return np.ldexp(values, LEVEL.fraction)


def _inner(levels: Codebook) -> Floats:
    """The levels at which a next interval begins that is not empty: float64 [2**b - 1, s], inf for the others."""
    return np.where(levels[1:-1] < levels[-1], levels[1:-1], np.inf)


def _intervals(units: Floats, inner: Floats) -> NDArray[np.uint8]:
    """How many inner levels each value has reached."""
    reached = np.zeros(units.shape, np.uint8)
    for level in inner:
        reached += units >= level
    return reached
