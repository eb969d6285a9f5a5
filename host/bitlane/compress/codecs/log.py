"""Logarithmic levels, dense near zero: one scale per group, and a signed level per value.

    L = 2**(bits - 1) - 1,  scale = max |v| of the group,  v' = sign(k) ((1 + alpha)**(|k| / L) - 1) / alpha * scale

with integer k from -L to L (LQ-SGD: Li et al., 2025, equations 5 and 6, section IV.A). Decisions where the paper is
silent: level 0 is zero and has no sign, so that 2**bits - 1 of the 2**bits codes are used, as in `linear`, which is the
limit for alpha to 0; the nearest level is nearest in value, not in logarithm; thresholds lie halfway between levels,
and a value on a threshold takes the lower level. Levels and thresholds are computed in float64 and rounded to float32
once; everything else is float32, in operations that every implementation rounds alike.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .arrays import Values, add_residual, check_body, check_input, check_values, group_scales, write_or_add
from .groups import Groups
from .linear import BITS
from .linear import body_bytes as body_bytes
from .packing import Bytes, pack, unpack


def check(bits: int, alpha: float) -> None:
    """Raise DataError unless bits is 2 to 8 and alpha is positive and finite."""
    if bits not in BITS:
        raise DataError(f"bits={bits}: logarithmic levels need 2 to 8")
    if not (isfinite(alpha) and alpha > 0):
        raise DataError(f"alpha={alpha}: the curvature of logarithmic levels must be positive and finite; 10 is usual")


def encode(values: Values, groups: Groups, bits: int, alpha: float, residual: Values | None = None) -> Bytes:
    """Encode values as a float32 scale for each group, then the codes k + L.

    Parameters
    ----------
    values : float32 [groups.count]
        Contiguous and finite.
    groups : Groups
        Groups that share a scale.
    bits : int
        Bits a value, 2 to 8.
    alpha : float
        Curvature of the levels, positive; the larger, the denser near zero.
    residual : float32 [groups.count], optional
        Error feedback: added to the values first, then overwritten with the quantization error.

    Returns
    -------
    uint8 [body_bytes(groups, bits)]

    Raises
    ------
    DataError
        For other types or shapes, and for numbers that are not finite.
    """
    check_input(values, residual, groups.count)
    total = add_residual(values, residual)
    scale = group_scales(total, groups)
    scale_of_value = np.repeat(np.where(scale > 0, scale, np.float32(np.inf)), groups.lengths)
    level = np.searchsorted(thresholds(bits, alpha), np.abs(total) / scale_of_value)
    codes = np.where(total < 0, _max_level(bits) - level, _max_level(bits) + level).astype(np.uint8)
    if residual is not None:
        residual[...] = total - levels(bits, alpha)[codes] * np.repeat(scale, groups.lengths)
    return np.concatenate([scale.astype("<f4").view(np.uint8), pack(codes, groups, bits)])


def decode(body: Bytes, groups: Groups, bits: int, alpha: float, out: Values, add: bool = False) -> None:
    """Write the decoded values to `out` float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    check_body(body, body_bytes(groups, bits))
    check_values(out, groups.count)
    scale = body[: 4 * len(groups)].view("<f4")
    codes = unpack(body[4 * len(groups) :], groups, bits)
    write_or_add(levels(bits, alpha)[codes] * np.repeat(scale, groups.lengths), out, add)


@lru_cache
def levels(bits: int, alpha: float) -> Values:
    """Return the value of each code as a fraction of the scale, float32 [2**bits] (equation 6).

    The last code is never sent; its entry follows the same formula.
    """
    k = np.arange(2**bits) - _max_level(bits)
    table: Values = (np.sign(k) * _curve(np.abs(k), bits, alpha)).astype(np.float32)
    table.setflags(write=False)
    return table


@lru_cache
def thresholds(bits: int, alpha: float) -> Values:
    """Return the magnitudes at which level k + 1 begins, float32 [L]."""
    magnitudes = _curve(np.arange(_max_level(bits) + 1), bits, alpha)
    middles: Values = ((magnitudes[:-1] + magnitudes[1:]) / 2).astype(np.float32)
    return middles


def _curve(k: NDArray[np.int64], bits: int, alpha: float) -> NDArray[np.float64]:
    curve: NDArray[np.float64] = np.expm1(np.log1p(alpha) * (k / _max_level(bits))) / alpha
    return curve


def _max_level(bits: int) -> int:
    return int(2 ** (bits - 1) - 1)
