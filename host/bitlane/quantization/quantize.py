"""From positions to stored integers: base codes and draw codes.

[-1, 1] is divided into ``2**base_bits`` equal intervals. A base code is the number of an interval; a draw bit selects
one of its two ends. Random words come from `bitlane.contract.draws`. `quantization.encode` makes the same bits in
machine code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import DRAW_BITS
from bitlane.contract.encoding import POSITION_FRACTION
from bitlane.contract.precision import Precision
from bitlane.contract.prng import Words
from bitlane.errors import DataError

from .scaling import Floats

HALF_INTERVAL = 1 << POSITION_FRACTION - 1
CUT = POSITION_FRACTION - DRAW_BITS  # bits of a position that a draw does not use


def base_codes(positions: Floats, precision: Precision, words: Words | None = None) -> NDArray[np.uint32]:
    """Return the interval of each value.

    Parameters
    ----------
    positions : float64 array [rows, s]
        See `bitlane.quantization.positions`.
    precision : Precision
        `sampling` and `base_bits` are used.
    words : uint32 array [rows, s], optional
        Random words, of which naive sampling uses the high halves: it draws one of the two middles around the value.

    Returns
    -------
    uint32 array [rows, s]
        0 to ``2**base_bits - 1``.

    Raises
    ------
    DataError
        Naive sampling without random words.
    """
    if precision.sampling != "naive":
        return _intervals(positions, precision).astype(np.uint32)
    if words is None:
        raise DataError("naive sampling needs random numbers: pass words")
    last = (1 << precision.base_bits) - 1
    from_middle = np.clip(positions - HALF_INTERVAL, 0, last << POSITION_FRACTION)
    codes = _intervals(from_middle, precision)
    upper = words >> np.uint32(DRAW_BITS) < _thresholds(from_middle, codes)
    codes += upper
    return codes.astype(np.uint32)


def draw_codes(positions: Floats, precision: Precision, words: Words) -> NDArray[np.uint8]:
    """Return two independent draws of an end of the interval of each value (ZipML, section 2.2, eq. 6).

    A draw is 1, the upper end, with the probability that makes its expectation equal to the value: the position of the
    value in the interval, to 16 bits.

    Parameters
    ----------
    positions : float64 array [rows, s]
        See `bitlane.quantization.positions`.
    precision : Precision
        `base_bits` is used.
    words : uint32 array [..., rows, s]
        Random words, of several draw sets too.

    Returns
    -------
    uint8 array [..., rows, s]
        ``2 * u1 + u2``.
    """
    return draw_ends(_thresholds(positions, _intervals(positions, precision)), words)


def draw_ends(thresholds: NDArray[np.integer], words: Words) -> NDArray[np.uint8]:
    """Return two independent draws for each threshold.

    Parameters
    ----------
    thresholds : int array [rows, s]
        Probability of a 1 in units of ``2**-16``, from 0 to ``2**16``.
    words : uint32 array [..., rows, s]
        Random words, of several draw sets too: a draw is 1 if its half is below the threshold.

    Returns
    -------
    uint8 array [..., rows, s]
        ``2 * u1 + u2``.
    """
    first = words >> np.uint32(DRAW_BITS) < thresholds
    second = words & np.uint32((1 << DRAW_BITS) - 1) < thresholds
    codes: NDArray[np.uint8] = first.astype(np.uint8) << np.uint8(1) | second.view(np.uint8)
    return codes


def _intervals(positions: Floats, precision: Precision) -> NDArray[np.int64]:
    intervals: NDArray[np.int64] = positions.astype(np.int64) >> POSITION_FRACTION
    return np.minimum(intervals, (1 << precision.base_bits) - 1, out=intervals)


def _thresholds(positions: Floats, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions inside the intervals, rounded to ``2**-16`` of an interval."""
    inside: NDArray[np.int64] = positions.astype(np.int64) - (codes << POSITION_FRACTION)
    inside += 1 << CUT - 1
    inside >>= CUT
    return inside
