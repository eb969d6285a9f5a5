"""Uniform levels: one step size per group, and a whole number of steps per value.

    L = 2**(bits - 1) - 1,  scale = max |v| of the group,  step = scale / L,  q = round(v / step),  v' = q * step

Rounding is to the nearest (ties to even), or stochastic and unbiased (QSGD: Alistarh et al., 2017, section 3, with the
maximum as the norm, as in its experiments). All arithmetic is float32, in an order of operations that no fused
multiply-add changes, so that every implementation writes the same bytes: numpy here, `kernels` with numba, and Triton.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.support.hashing import FRACTION_BITS, hash_words

from . import compiled
from .arrays import Values, add_residual, check_body, check_input, check_values, group_scales, write_or_add
from .compiled import kernels
from .groups import Bits, Groups
from .packing import Bytes, pack, unpack

BITS = range(2, 9)


def body_bytes(groups: Groups, bits: Bits) -> int:
    """Return the bytes of a body: a float32 step for each group, then the codes."""
    return 4 * len(groups) + groups.all_code_bytes(bits)


def encode(
    values: Values, groups: Groups, bits: Bits, residual: Values | None = None, seed: int | None = None
) -> Bytes:
    """Encode values as steps and codes.

    Parameters
    ----------
    values : float32 [groups.count]
        Contiguous and finite. Values above ``2**127`` in magnitude may decode to infinity.
    groups : Groups
        Groups that share a step.
    bits : int, or uint8 [groups]
        Bits a value, 2 to 8; those of each group if they differ.
    residual : float32 [groups.count], optional
        Error feedback: added to the values first, then overwritten with the quantization error.
    seed : int, optional
        32-bit seed of stochastic rounding. None rounds to the nearest level.

    Returns
    -------
    uint8 [body_bytes(groups, bits)]

    Raises
    ------
    DataError
        For other types or shapes, and for numbers that are not finite; the residual is then invalid.
    """
    check_input(values, residual, groups.count)
    if kernels() is None:
        return _encode(values, groups, bits, residual, seed)
    return compiled.encode(values, groups, bits, residual, seed)


def decode(body: Bytes, groups: Groups, bits: Bits, out: Values, add: bool = False) -> None:
    """Write the decoded values to `out` float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    check_body(body, body_bytes(groups, bits))
    check_values(out, groups.count)
    steps, codes = body[: 4 * len(groups)].view("<f4"), body[4 * len(groups) :]
    if kernels() is None:
        _decode(codes, steps, groups, bits, out, add)
    else:
        compiled.decode(codes, steps, groups, bits, out, add)


def expected_errors(values: Values, groups: Groups, widths: Sequence[int]) -> NDArray[np.float64]:
    """Return the expected sum of the squared errors of stochastic rounding, for each number of bits.

    A value that lies a fraction f of a step above a level has the error ``step**2 * f * (1 - f)``.
    """
    scales = group_scales(values, groups).astype(np.float64)
    scaled = np.abs(values) * np.repeat(
        np.divide(1.0, scales, out=np.zeros(len(scales)), where=scales > 0), groups.lengths
    )
    weights = np.repeat(scales**2, groups.lengths)
    errors = []
    for bits in widths:
        levels = scaled * (2 ** (bits - 1) - 1)
        fraction = levels - np.floor(levels)
        errors.append(float((weights * fraction * (1 - fraction)).sum()) / (2 ** (bits - 1) - 1) ** 2)
    return np.array(errors)


def _encode(values: Values, groups: Groups, bits: Bits, residual: Values | None, seed: int | None) -> Bytes:
    total = add_residual(values, residual)
    max_level = _max_levels(groups, bits)
    scale = group_scales(total, groups)
    step = scale / max_level
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, max_level / scale, np.float32(0))
    inverse_of_value, bias = np.repeat(inverse, groups.lengths), np.repeat(max_level, groups.lengths)
    if seed is None:
        levels = np.rint(total * inverse_of_value) + np.float32(0)  # turns -0 into 0, as codes do
    else:
        fixed = np.rint(total * (inverse_of_value * np.float32(1 << FRACTION_BITS))).astype(np.int32)
        words = (hash_words(seed, np.arange(groups.count)) >> np.uint32(32 - FRACTION_BITS)).astype(np.int32)
        levels = np.minimum((fixed + words) >> FRACTION_BITS, bias.astype(np.int32)).astype(np.float32)
    if residual is not None:
        residual[...] = total - levels * np.repeat(step, groups.lengths)
    codes = pack((levels + bias).astype(np.uint8), groups, bits)
    return np.concatenate([step.astype("<f4").view(np.uint8), codes])


def _decode(codes: Bytes, step: Values, groups: Groups, bits: Bits, out: Values, add: bool) -> None:
    levels = unpack(codes, groups, bits).astype(np.float32) - np.repeat(_max_levels(groups, bits), groups.lengths)
    write_or_add(levels * np.repeat(step, groups.lengths), out, add)


def _max_levels(groups: Groups, bits: Bits) -> Values:
    """Return the highest level of each group, float32 [groups]."""
    return np.broadcast_to(2.0 ** (np.asarray(bits, np.float32) - 1) - 1, len(groups)).astype(np.float32)
