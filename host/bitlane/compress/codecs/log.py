"""Levels that are dense near zero: each group of values as its largest magnitude, and a level of logarithms a value.

    L = 2**(bits - 1) - 1,  scale = max |v| of the group,  v' = sign(k) ((1 + alpha)**(|k| / L) - 1) / alpha * scale

with whole k from -L to L (LQ-SGD: Li et al., 2025, equations 5 and 6, section IV.A). Where the paper is silent: level 0
is zero and has no sign, so that 2**bits - 1 of the 2**bits codes are used, as by `linear`, which this becomes for
alpha near 0; and the nearest level is the nearest in value, not in logarithm: thresholds lie half-way between levels,
and what lies on one goes down. Levels and thresholds are computed in float64 and rounded to float32 once; the rest is
float32, in operations that every implementation rounds alike.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

from .arrays import Values, added, check_body, check_input, check_values, put, scales
from .groups import Groups
from .linear import BITS
from .linear import body_bytes as body_bytes
from .packing import Bytes, pack, unpack


def check(bits: int, alpha: float) -> None:
    """DataError for bits that are not 2 to 8, or an alpha that is not positive and finite."""
    if bits not in BITS:
        raise DataError(f"bits={bits}: levels of logarithms have 2 to 8")
    if not (isfinite(alpha) and alpha > 0):
        raise DataError(f"alpha={alpha}: the curve of the logarithm is positive and finite; 10 is usual")


def encode(values: Values, groups: Groups, bits: int, alpha: float, residual: Values | None = None) -> Bytes:
    """The body uint8 [body_bytes] of `values`: float32 scale of every group, then codes k + L.

    Parameters
    ----------
    values: float32 [groups.count], contiguous, finite.
    bits, alpha: 2 to 8, and the curve of the levels; positive.
    residual: float32 of the same shape: is added first, and becomes what the codes do not say (error feedback).

    Raises
    ------
    DataError: other types or shapes, or numbers that are not finite.
    """
    check_input(values, residual, groups.count)
    whole = added(values, residual)
    scale = scales(whole, groups)
    each = np.repeat(np.where(scale > 0, scale, np.float32(np.inf)), groups.lengths)
    level = np.searchsorted(_thresholds(bits, alpha), np.abs(whole) / each)
    codes = np.where(whole < 0, _most(bits) - level, _most(bits) + level).astype(np.uint8)
    if residual is not None:
        residual[...] = whole - levels(bits, alpha)[codes] * np.repeat(scale, groups.lengths)
    return np.concatenate([scale.astype("<f4").view(np.uint8), pack(codes, groups, bits)])


def decode(body: Bytes, groups: Groups, bits: int, alpha: float, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    check_body(body, body_bytes(groups, bits))
    check_values(out, groups.count)
    scale = body[: 4 * len(groups)].view("<f4")
    codes = unpack(body[4 * len(groups) :], groups, bits)
    put(levels(bits, alpha)[codes] * np.repeat(scale, groups.lengths), out, add)


@lru_cache
def levels(bits: int, alpha: float) -> Values:
    """float32 [2**bits]: what each code stands for, as a part of the scale (equation 6).

    The last code is never sent; it has the level that the formula gives it.
    """
    k = np.arange(2**bits) - _most(bits)
    found: Values = (np.sign(k) * _curve(np.abs(k), bits, alpha)).astype(np.float32)
    found.setflags(write=False)
    return found


@lru_cache
def _thresholds(bits: int, alpha: float) -> Values:
    """float32 [L]: where the magnitude of level k ends and that of k + 1 begins."""
    magnitudes = _curve(np.arange(_most(bits) + 1), bits, alpha)
    middles: Values = ((magnitudes[:-1] + magnitudes[1:]) / 2).astype(np.float32)
    return middles


def _curve(k: NDArray[np.int64], bits: int, alpha: float) -> NDArray[np.float64]:
    curve: NDArray[np.float64] = np.expm1(np.log1p(alpha) * (k / _most(bits))) / alpha
    return curve


def _most(bits: int) -> int:
    return int(2 ** (bits - 1) - 1)
