"""Rounding and saturation of integers, and the small floating-point format of step and penalty registers.

`round_half_up` and `saturate` have the names and results of their counterparts in `bitlane_hw.common.fixed_point`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .formats import DECAY_FRACTION, EXPONENT_BITS, MANTISSA_BITS, PENALTY_STEP_FRACTION, Fixed

MANTISSA_END = 1 << MANTISSA_BITS
MAX_EXPONENT = (1 << EXPONENT_BITS) - 1
NO_DECAY = 1 << DECAY_FRACTION
PHASE_BITS = 32


def round_half_up(x: NDArray[np.int64], n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``(x + 2**(n-1)) >> n``, or x if n is 0.

    Parameters
    ----------
    x : int64 array
        With ``x + 2**(n-1) < 2**63``.
    n : int or int64 array
        Bits to remove.

    Returns
    -------
    int64 array
        With the shape of x.
    """
    return (x + ((1 << n) >> 1)) >> n


def saturate(x: NDArray[np.int64], fmt: Fixed) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Clip integers to a format.

    Parameters
    ----------
    x : int64 array
    fmt : Fixed

    Returns
    -------
    values : int64 array
        With the shape of x.
    clipped : bool array
        True for each value that was clipped.
    """
    values = np.minimum(np.maximum(x, fmt.minimum), fmt.maximum)
    return values, values != x


def round_at_random(x: NDArray[np.int64], random: NDArray[np.uint32], cut: int) -> NDArray[np.int64]:
    """Round to a multiple of ``2**cut``, up or down at random and without bias.

    Parameters
    ----------
    x : int64 array
    random : uint32 array
        Random words, with the shape of x; their low `cut` bits are used.
    cut : int
        Bits to clear. 0 returns x unchanged.

    Returns
    -------
    int64 array
        The low `cut` bits are 0.
    """
    below = (1 << cut) - 1
    rounded: NDArray[np.int64] = (x + (random & np.uint32(below)).astype(np.int64)) & ~below
    return rounded


def encode_float(value: float, fraction: int, name: str = "value") -> int:
    """Return the register ``mantissa | exponent << 16`` nearest to ``value = mantissa * 2**-(fraction + exponent)``.

    The mantissa has 16 bits with its top bit set, except for 0 and for values below ``2**(15 - fraction - 31)``, which
    have fewer significant bits.

    Parameters
    ----------
    value : float
    fraction : int
        `STEP_FRACTION` or `PENALTY_STEP_FRACTION`.
    name : str, default="value"
        Name of the value in error messages.

    Returns
    -------
    int

    Raises
    ------
    DataError
        The value is negative, not finite, too large (8 or more for a step, 1 or more for a penalty step), or above 0
        but would round to 0.
    """
    if not math.isfinite(value) or value < 0:
        raise DataError(f"{name} is {value}: it must be a finite number of at least 0")
    if value == 0:
        return 0
    _, power = math.frexp(value)
    exponent = min(MANTISSA_BITS - fraction - power, MAX_EXPONENT)
    mantissa = math.floor(math.ldexp(value, fraction + exponent) + 0.5)
    if mantissa == MANTISSA_END:
        mantissa, exponent = mantissa >> 1, exponent - 1
    if exponent < 0:
        raise DataError(f"{name} is {value}: it must be below {2.0 ** (MANTISSA_BITS - fraction):g}")
    if mantissa == 0:
        raise DataError(f"{name} is {value}: it must be 0 or above {2.0 ** -(fraction + MAX_EXPONENT + 1):g}")
    return mantissa | exponent << MANTISSA_BITS


def split_float(register: int) -> tuple[int, int]:
    """Return mantissa and exponent of a step or penalty register."""
    return register & (MANTISSA_END - 1), register >> MANTISSA_BITS


def phase_rate(register: int) -> int:
    """Return what a phase grows by at the end of a batch: a penalty step in units of ``2**-PHASE_BITS``."""
    mantissa, exponent = split_float(register)
    return (mantissa << PHASE_BITS - PENALTY_STEP_FRACTION) >> exponent


def decode_float(register: int, fraction: int) -> float:
    """Return the value of a step or penalty register: the inverse of `encode_float`."""
    mantissa, exponent = split_float(register)
    return math.ldexp(mantissa, -(fraction + exponent))


def decayed(register: int, decay: int) -> int:
    """Return a step or penalty register after one epoch.

    The mantissa is multiplied by ``decay * 2**-16``, truncated, and normalised as long as the exponent has room.

    Parameters
    ----------
    register : int
    decay : int
        The decay register, ``2**15`` to ``2**16``. ``2**16`` changes nothing except the exponent of 0.
    """
    mantissa, exponent = split_float(register)
    product = mantissa * decay
    if product < 1 << (MANTISSA_BITS + DECAY_FRACTION - 1) and exponent < MAX_EXPONENT:
        return product >> (DECAY_FRACTION - 1) | (exponent + 1) << MANTISSA_BITS
    return product >> DECAY_FRACTION | exponent << MANTISSA_BITS
