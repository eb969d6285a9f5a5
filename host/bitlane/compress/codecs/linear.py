"""Evenly spaced levels: each group of values as one step, and a whole number of steps a value.

    L = 2**(bits - 1) - 1,  scale = max |v| of the group,  step = scale / L,  q = v / step rounded,  v' = q * step

Rounded to the nearest (ties to even), or at random without bias (QSGD: Alistarh et al., 2017, section 3, with the
maximum for the norm, as its experiments have it). All is float32, in an order of operations that no fused multiply-add
can change, so that every implementation makes the same bytes: that of numpy here, `kernels` where numba is installed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import check_body, check_values, not_finite
from .compiled import kernels
from .groups import TINY, Groups
from .packing import Bytes, pack, unpack
from .randomness import FRACTION, words

Values = NDArray[np.float32]

BITS = range(2, 9)
_NONE = np.empty(0, np.float32)


def body_bytes(groups: Groups, bits: int) -> int:
    """Bytes of a body: a float32 step for each group, then the codes."""
    return 4 * len(groups) + groups.all_code_bytes(bits)


def encode(values: Values, groups: Groups, bits: int, residual: Values | None = None, seed: int | None = None) -> Bytes:
    """The body uint8 [body_bytes] of `values`.

    Parameters
    ----------
    values: float32 [groups.count], contiguous, finite.
    bits: 2 to 8.
    residual: float32 of the same shape: is added first, and becomes what the codes do not say (error feedback).
    seed: of random rounding, 32 bits; None rounds to the nearest.

    Raises
    ------
    DataError: other types or shapes, or numbers that are not finite; the residual is then of no more use.
    """
    check_values(values, groups.count)
    if residual is not None:
        check_values(residual, groups.count, "residuals")
    if kernels() is None:
        return _encode(values, groups, bits, residual, seed)
    body = np.empty(body_bytes(groups, bits), np.uint8)
    steps, codes = body[: 4 * len(groups)].view(np.float32), body[4 * len(groups) :]
    kept, source = (_NONE, values) if residual is None else (residual, residual)
    feedback, random = residual is not None, seed is not None
    bad = kernels().encode(values, source, kept, feedback, groups.lengths, bits, random, seed or 0, steps, codes)
    if bad >= 0:
        raise not_finite(bad)
    return body


def decode(body: Bytes, groups: Groups, bits: int, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    check_body(body, body_bytes(groups, bits))
    check_values(out, groups.count)
    steps, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, steps, groups, bits, out, add)
    else:
        kernels().decode(codes, np.array(steps, np.float32), groups.lengths, bits, out, add)


def _encode(values: Values, groups: Groups, bits: int, residual: Values | None, seed: int | None) -> Bytes:
    with np.errstate(over="ignore", invalid="ignore"):
        whole = values if residual is None else values + residual
    most = np.float32(2 ** (bits - 1) - 1)
    scale = np.maximum.reduceat(np.abs(whole), groups.starts[:-1]) if len(groups) else np.zeros(0, np.float32)
    if not np.isfinite(scale).all():
        raise not_finite(int(np.argmin(np.isfinite(scale))))
    scale = np.where(scale < TINY, np.float32(0), scale)
    step = scale / most
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, most / scale, np.float32(0))
    each = np.repeat(inverse, groups.lengths)
    if seed is None:
        steps = np.rint(whole * each) + np.float32(0)  # which makes 0 of -0, as codes do
    else:
        fixed = np.rint(whole * (each * np.float32(1 << FRACTION))).astype(np.int32)
        drawn = (words(seed, np.arange(groups.count)) >> np.uint32(32 - FRACTION)).astype(np.int32)
        steps = np.minimum((fixed + drawn) >> FRACTION, np.int32(most)).astype(np.float32)
    if residual is not None:
        residual[...] = whole - steps * np.repeat(step, groups.lengths)
    codes = pack((steps + most).astype(np.uint8), groups, bits)
    return np.concatenate([step.astype("<f4").view(np.uint8), codes])


def _decode(codes: Bytes, step: Values, groups: Groups, bits: int, out: Values, add: bool) -> None:
    steps = unpack(codes, groups, bits).astype(np.float32) - np.float32(2 ** (bits - 1) - 1)
    values = steps * np.repeat(step, groups.lengths)
    if add:
        out += values
    else:
        out[...] = values
