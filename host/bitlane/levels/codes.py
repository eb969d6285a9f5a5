"""From scaled values to codes if each feature has separate levels: the interval, and draws of its two ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import DRAW_BITS
from bitlane.contract.formats import LEVEL
from bitlane.contract.prng import Words
from bitlane.quantization.quantize import draw_ends
from bitlane.quantization.scaling import Floats

from .codebooks import Codebook


def codebook_codes(values: Floats, levels: Codebook) -> NDArray[np.uint32]:
    """Return the interval of each value. An interval is empty only if all levels of the feature are equal.

    Parameters
    ----------
    values : float64 array [rows, s]
        Scaled. Values outside the outermost levels are clipped.
    levels : int32 array [2**b + 1, s]
        Ascending, in units of ``2**-16``.

    Returns
    -------
    uint32 array [rows, s]
        0 to ``2**b - 1``: the number i of the interval from level i to level i + 1.
    """
    return _intervals(_units(values), _inner(levels)).astype(np.uint32)


def codebook_draws(values: Floats, levels: Codebook, words: Words) -> NDArray[np.uint8]:
    """Return two independent, unbiased draws of an end of the interval of each value (ZipML, section 2.2, eq. 6).

    Parameters
    ----------
    values, levels
        As for `codebook_codes`.
    words : uint32 array [..., rows, s]
        Random words, as for uniform levels.

    Returns
    -------
    uint8 array [..., rows, s]
        ``2 * u1 + u2``. Each is 1, the upper end, with probability ``(v - l_i) / (l_{i+1} - l_i)``, to 16 bits.
    """
    ends, columns = levels.astype(np.float64).ravel(), levels.shape[1]
    units = _units(values)
    low = _intervals(units, _inner(levels)).astype(np.intp) * columns + np.arange(columns)
    below = ends[low]
    units -= below
    width = ends[low + columns]
    width -= below
    units /= np.maximum(width, 1.0, out=width)  # in an empty interval a value is on both ends
    thresholds = np.floor(np.ldexp(units, DRAW_BITS) + 0.5)
    return draw_ends(np.clip(thresholds, 0, 1 << DRAW_BITS).astype(np.int64), words)


def _units(values: Floats) -> Floats:
    return np.ldexp(values, LEVEL.fraction)


def _inner(levels: Codebook) -> Floats:
    """Return the levels at which the next non-empty interval begins: float64 [2**b - 1, s], inf for the others."""
    return np.where(levels[1:-1] < levels[-1], levels[1:-1], np.inf)


def _intervals(units: Floats, inner: Floats) -> NDArray[np.uint8]:
    """Return how many inner levels are at most as large as each value."""
    reached = np.zeros(units.shape, np.uint8)
    for level in inner:
        reached += units >= level
    return reached
