"""Rounding and saturation of integers, and the small floating format of the step and rate registers.

`round_half_up` and `saturate` have the names and results of their twins in `bitlane_hw.common.fixed_point`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .formats import DECAY_FRACTION, EXPONENT_BITS, MANTISSA_BITS, Fixed

MANTISSA_END = 1 << MANTISSA_BITS
MAX_EXPONENT = (1 << EXPONENT_BITS) - 1
NO_DECAY = 1 << DECAY_FRACTION


def round_half_up(x: NDArray[np.int64], n: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """`(x + 2**(n-1)) >> n` for int64 of any shape, n one or an array; `x` itself where n is 0.

    Needs `x + 2**(n-1) < 2**63`.
    """
    return (x + ((1 << n) >> 1)) >> n


def saturate(x: NDArray[np.int64], fmt: Fixed) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The int64 `x`, of any shape, clipped to `fmt`, and a mask of that shape: True where it was clipped."""
    values = np.minimum(np.maximum(x, fmt.minimum), fmt.maximum)
    return values, values != x


def round_at_random(x: NDArray[np.int64], random: NDArray[np.uint32], cut: int) -> NDArray[np.int64]:
    """`x` with its low `cut` bits left out: up with the probability of what they stand for; `x` itself where cut is 0.

    x int64 and random uint32, of one shape; of random, the low `cut` bits are used.
    """
    below = (1 << cut) - 1
    rounded: NDArray[np.int64] = (x + (random & np.uint32(below)).astype(np.int64)) & ~below
    return rounded


def encode_float(value: float, fraction: int, name: str = "value") -> int:
    """The register `mantissa | exponent << 16` nearest to `value = mantissa * 2**-(fraction + exponent)`.

    The mantissa has 16 bits and its top bit set, except for 0 and for values below `2**(15 - fraction - 31)`,
    which keep as many bits as are left.

    Raises
    ------
    DataError: `value` is negative, not finite, too large (8 with the step's fraction of 13, 1 with the rate's
        of 16), or above 0 and yet rounded to it. The message calls it `name`.
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
    """Mantissa and exponent of a step or rate register."""
    return register & (MANTISSA_END - 1), register >> MANTISSA_BITS


def decode_float(register: int, fraction: int) -> float:
    """The number that a step or rate register stands for: the inverse of `mantissa_exponent`."""
    mantissa, exponent = split_float(register)
    return math.ldexp(mantissa, -(fraction + exponent))


def decayed(register: int, decay: int) -> int:
    """A step or rate register after an epoch: times `decay * 2**-16`, cut, normalised while exponents last.

    `decay` is the register's integer, from 2**15 to 2**16; 2**16 changes nothing but the exponent of 0.
    """
    mantissa, exponent = split_float(register)
    product = mantissa * decay
    if product < 1 << (MANTISSA_BITS + DECAY_FRACTION - 1) and exponent < MAX_EXPONENT:
        return product >> (DECAY_FRACTION - 1) | (exponent + 1) << MANTISSA_BITS
    return product >> DECAY_FRACTION | exponent << MANTISSA_BITS
