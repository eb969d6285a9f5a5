"""Evenly spaced levels: each group of values as one step, and a whole number of steps a value.

    L = 2**(bits - 1) - 1,  scale = max |v| of the group,  step = scale / L,  q = v / step rounded,  v' = q * step

Rounded to the nearest (ties to even), or at random without bias (QSGD: Alistarh et al., 2017, section 3, with the
maximum for the norm, as its experiments have it). All is float32, in an order of operations that no fused multiply-add
can change, so that every implementation makes the same bytes: that of numpy here, `kernels` where numba is installed.
"""

from __future__ import annotations

import numpy as np

from bitlane.support.hashing import FRACTION, hash_words

from . import compiled
from .arrays import Values, added, check_body, check_input, check_values, put, scales
from .compiled import kernels
from .groups import Groups
from .packing import Bytes, pack, unpack

BITS = range(2, 9)


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
    check_input(values, residual, groups.count)
    if kernels() is None:
        return _encode(values, groups, bits, residual, seed)
    return compiled.encode(values, groups, bits, residual, seed)


def decode(body: Bytes, groups: Groups, bits: int, out: Values, add: bool = False) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    check_body(body, body_bytes(groups, bits))
    check_values(out, groups.count)
    steps, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, steps, groups, bits, out, add)
    else:
        compiled.decode(codes, steps, groups, bits, out, add)


def _encode(values: Values, groups: Groups, bits: int, residual: Values | None, seed: int | None) -> Bytes:
    whole = added(values, residual)
    most = np.float32(2 ** (bits - 1) - 1)
    scale = scales(whole, groups)
    step = scale / most
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, most / scale, np.float32(0))
    each = np.repeat(inverse, groups.lengths)
    if seed is None:
        steps = np.rint(whole * each) + np.float32(0)  # which makes 0 of -0, as codes do
    else:
        fixed = np.rint(whole * (each * np.float32(1 << FRACTION))).astype(np.int32)
        drawn = (hash_words(seed, np.arange(groups.count)) >> np.uint32(32 - FRACTION)).astype(np.int32)
        steps = np.minimum((fixed + drawn) >> FRACTION, np.int32(most)).astype(np.float32)
    if residual is not None:
        residual[...] = whole - steps * np.repeat(step, groups.lengths)
    codes = pack((steps + most).astype(np.uint8), groups, bits)
    return np.concatenate([step.astype("<f4").view(np.uint8), codes])


def _decode(codes: Bytes, step: Values, groups: Groups, bits: int, out: Values, add: bool) -> None:
    steps = unpack(codes, groups, bits).astype(np.float32) - np.float32(2 ** (bits - 1) - 1)
    put(steps * np.repeat(step, groups.lengths), out, add)
