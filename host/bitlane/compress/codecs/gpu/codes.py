"""Signs and uniform levels on a GPU: one program per group, all data in registers.

The formulas are those of `linear` and `sign`. Division rounds correctly, no multiplication is fused with an addition,
and sums are binary trees, so that bytes and residuals equal the CPU's.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.support.hashing import FRACTION_BITS, GOLDEN_RATIO, MULTIPLIERS

from ..groups import MIN_SCALE, Bits, Groups
from ..wire import PayloadError
from .octets import FULL, OPTIONS, indices_in_group, lanes, load_codes, store_codes, tl, triton

_MIN_SCALE = tl.constexpr(float(MIN_SCALE))
_FRACTION_BITS = tl.constexpr(FRACTION_BITS)
_GOLDEN_RATIO = tl.constexpr(GOLDEN_RATIO)
_MULTIPLIER_1, _MULTIPLIER_2 = tl.constexpr(MULTIPLIERS[0]), tl.constexpr(MULTIPLIERS[1])
_NO_FRACTION = tl.constexpr(float(2**23))  # a float32 this large has no fraction


def encode(values: Tensor, groups: Groups, bits: Bits, residual: Tensor | None, seed: int | None) -> Tensor:
    """Encode values on their device as `linear.encode` does, or for 1 bit as `sign.encode` does.

    Values are not checked for NaN and infinity, since that would wait for the device: DDPCompression checks them.

    Raises
    ------
    DataError
        For groups of more than one run, and for tensors that are not contiguous float32.
    """
    _check(values, groups)
    if residual is not None:
        _check(residual, groups)
    body = torch.empty(4 * len(groups) + groups.all_code_bytes(bits), dtype=torch.uint8, device=values.device)
    if len(groups):
        steps, codes = body[: 4 * len(groups)].view(torch.float32), body[4 * len(groups) :]
        signed_seed = None if seed is None else _signed(seed)
        same, formats = _formats(groups, bits, values.device)
        _encode[(len(groups),)](
            values, residual, steps, codes, formats, groups.count, signed_seed, same, lanes(same or 8), **OPTIONS
        )  # fmt: skip
    return body


def decode(body: Tensor, groups: Groups, bits: Bits, out: Tensor, add: bool) -> None:
    """Write the decoded values to `out` float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    _check(out, groups)
    if body.dtype != torch.uint8 or body.shape != (4 * len(groups) + groups.all_code_bytes(bits),):
        actual = f"{body.dtype} {tuple(body.shape)}"
        raise PayloadError(f"body is {actual}, which is not that of {groups.count} values at {bits} bits")
    if len(groups):
        steps, codes = body[: 4 * len(groups)].clone().view(torch.float32), body[4 * len(groups) :]
        same, formats = _formats(groups, bits, out.device)
        _decode[(len(groups),)](
            codes, steps, formats, out, groups.count, same, lanes(same or 8), add, **OPTIONS
        )  # fmt: skip


def _check(values: Tensor, groups: Groups) -> None:
    if values.dtype != torch.float32 or values.shape != (groups.count,) or not values.is_contiguous():
        actual = f"{values.dtype} {tuple(values.shape)}"
        raise DataError(f"tensor is {actual}; a GPU codec needs contiguous float32 ({groups.count},)")
    if not groups.are_full:
        raise DataError("groups of several runs: a GPU codec takes the groups of a single run of values")


def _formats(groups: Groups, bits: Bits, device: torch.device) -> tuple[int, Tensor | None]:
    """Return the bits of all groups and None; or 0, and each group's bits and first byte, int64 [groups, 2]."""
    if not isinstance(bits, np.ndarray):
        return bits, None
    sizes = groups.code_bytes(bits)
    return 0, torch.from_numpy(np.stack([bits.astype(np.int64), np.cumsum(sizes) - sizes], axis=1)).to(device)


def _signed(seed: int) -> int:
    """The same 32 bits as an int32, so that the kernel's signature does not depend on the seed."""
    return (seed + 2**31) % 2**32 - 2**31


@triton.jit(do_not_specialize=["seed"])  # type: ignore[untyped-decorator]
def _encode(  # noqa: PLR0913  # a kernel has no objects
    values: tl.tensor,
    residual: tl.tensor,
    steps: tl.tensor,
    codes: tl.tensor,
    formats: tl.tensor,
    total: tl.tensor,
    seed: tl.tensor,
    same: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """Encode one group. `residual` may be None, `seed` None rounds to the nearest; Triton compiles each case.

    `same` is the bits of all groups; 0 if `formats` has those of each.
    """
    group = tl.program_id(0)
    begin = group.to(tl.int64) * FULL
    bits, first_byte = _format(formats, group, same)
    indices = begin + indices_in_group()
    valid = indices < total
    x = tl.load(values + indices, mask=valid, other=0.0)
    if residual is not None:
        x += tl.load(residual + indices, mask=valid, other=0.0)
    magnitude = tl.abs(x)
    count = tl.minimum(total - begin, FULL)
    max_level = _max_level(bits)
    if same == 1:
        scale = tl.math.div_rn(_tree_sum(magnitude), count.to(tl.float32))
    else:
        scale = tl.max(tl.max(magnitude, axis=1), axis=0)
        scale = tl.where(scale < _MIN_SCALE, 0.0, scale)
    step = tl.math.div_rn(scale, max_level)
    if same == 1:
        level = tl.where(x >= 0, 1.0, -1.0)
        code = tl.where(x >= 0, 1, 0)
    else:
        inverse = tl.where(scale > 0, tl.math.div_rn(max_level, scale), 0.0)
        if seed is not None:
            word = indices.to(tl.uint32) * _GOLDEN_RATIO + seed.to(tl.uint32)
            word = (word ^ (word >> 16)) * _MULTIPLIER_1
            word = (word ^ (word >> 15)) * _MULTIPLIER_2
            draw = (word >> (32 - _FRACTION_BITS)).to(tl.int32)
            fixed = _rint(x * (inverse * 2.0**_FRACTION_BITS)).to(tl.int32)
            level = tl.minimum((fixed + draw) >> _FRACTION_BITS, max_level).to(tl.float32)
        else:
            level = _rint(x * inverse)
        code = (level + max_level).to(tl.int32)
    tl.store(steps + group, step)
    if residual is not None:
        tl.store(residual + indices, x - level * step, mask=valid)
    store_codes(tl.where(valid, code, 0), codes + first_byte, count, bits, lanes)


@triton.jit  # type: ignore[untyped-decorator]
def _decode(
    codes: tl.tensor,
    steps: tl.tensor,
    formats: tl.tensor,
    out: tl.tensor,
    total: tl.tensor,
    same: tl.constexpr,
    lanes: tl.constexpr,
    add: tl.constexpr,
) -> None:
    group = tl.program_id(0)
    begin = group.to(tl.int64) * FULL
    bits, first_byte = _format(formats, group, same)
    code = load_codes(codes + first_byte, tl.minimum(total - begin, FULL), bits, lanes)
    if same == 1:
        level = (2 * code - 1).to(tl.float32)
    else:
        level = code.to(tl.float32) - _max_level(bits)
    indices = begin + indices_in_group()
    value = level * tl.load(steps + group)
    if add:
        value += tl.load(out + indices, mask=indices < total, other=0.0)
    tl.store(out + indices, value, mask=indices < total)


@triton.jit  # type: ignore[untyped-decorator]
def _format(formats: tl.tensor, group: tl.tensor, same: tl.constexpr) -> tl.tensor:
    """Return the bits of a group, int32, and the first byte of its codes, int64."""
    if same > 0:
        bits, first_byte = tl.full((), same, tl.int32), group.to(tl.int64) * (FULL * same // 8)
    else:
        bits, first_byte = tl.load(formats + 2 * group).to(tl.int32), tl.load(formats + 2 * group + 1)
    return bits, first_byte


@triton.jit  # type: ignore[untyped-decorator]
def _max_level(bits: tl.tensor) -> tl.tensor:
    """Return 2**(bits - 1) - 1, and 1 for signs."""
    return tl.maximum((1 << (bits - 1)) - 1, 1).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _rint(x: tl.tensor) -> tl.tensor:
    """Round to the nearest, ties to even, for |x| < 2**23: adding 2**23 leaves no bits for a fraction."""
    rounded = (tl.abs(x) + _NO_FRACTION) - _NO_FRACTION
    return tl.where(x < 0, -rounded, rounded) + 0.0


@triton.jit  # type: ignore[untyped-decorator]
def _tree_sum(magnitudes: tl.tensor) -> tl.tensor:
    """Sum a full group as a binary tree."""
    sums = tl.reshape(magnitudes, (FULL,))
    for level in tl.static_range(9):
        sums = tl.sum(tl.reshape(sums, (2, FULL >> (level + 1))), axis=0)
    return tl.sum(sums, axis=0)
