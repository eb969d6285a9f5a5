"""Signs and evenly spaced levels on a GPU: a program a group, all of it in registers.

The formulas are those of `linear` and `sign`. Division is the one that rounds correctly, no multiplication is fused
with an addition, and sums are written as a tree, so that bytes and residuals are the CPU's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.support.hashing import FIRST, FRACTION, PLACE, SECOND

from ..groups import GROUP, TINY, Groups
from ..wire import PayloadError

triton: Any = import_module("triton")
tl: Any = import_module("triton.language")

OPTIONS = {"enable_fp_fusion": False}  # of the compiler

_FULL = tl.constexpr(GROUP)
_OCTETS = tl.constexpr(GROUP // 8)  # of codes: eight of them are as many bytes as a code has bits
_TINY = tl.constexpr(float(TINY))
_FRACTION = tl.constexpr(FRACTION)
_PLACE, _FIRST, _SECOND = tl.constexpr(PLACE), tl.constexpr(FIRST), tl.constexpr(SECOND)
_WHOLE = tl.constexpr(float(2**23))  # from here on a float32 has no fraction


def encode(values: Tensor, groups: Groups, bits: int, residual: Tensor | None, seed: int | None) -> Tensor:
    """The body uint8 of `linear.encode`, or with one bit that of `sign.encode`, on the device of `values`.

    Values that are not finite are not looked for, since that would wait for the device: DDPCompression has done so.
    DataError where groups are not those of a single run of values, or tensors not contiguous float32.
    """
    _check(values, groups)
    if residual is not None:
        _check(residual, groups)
    body = torch.empty(4 * len(groups) + groups.all_code_bytes(bits), dtype=torch.uint8, device=values.device)
    if len(groups):
        steps, codes = body[: 4 * len(groups)].view(torch.float32), body[4 * len(groups) :]
        kept = values if residual is None else residual
        feedback, random = residual is not None, seed is not None
        _encode[(len(groups),)](
            values, kept, steps, codes, groups.count, _signed(seed or 0), bits, _lanes(bits), feedback, random,
            **OPTIONS,
        )  # fmt: skip
    return body


def decode(body: Tensor, groups: Groups, bits: int, out: Tensor, add: bool) -> None:
    """Write, or add, the values of a body to `out` float32 [groups.count]; PayloadError for a body of other length."""
    _check(out, groups)
    if body.dtype != torch.uint8 or body.shape != (4 * len(groups) + groups.all_code_bytes(bits),):
        what = f"{body.dtype} {tuple(body.shape)}"
        raise PayloadError(f"a body {what} is not that of {groups.count} values at {bits} bits")
    if len(groups):
        steps, codes = body[: 4 * len(groups)].clone().view(torch.float32), body[4 * len(groups) :]
        _decode[(len(groups),)](
            codes, steps, out, groups.count, bits, _lanes(bits), add, **OPTIONS
        )  # fmt: skip


def _check(values: Tensor, groups: Groups) -> None:
    if values.dtype != torch.float32 or values.shape != (groups.count,) or not values.is_contiguous():
        raise DataError(f"{values.dtype} {tuple(values.shape)}, where contiguous float32 ({groups.count},) is needed")
    if len(groups) != triton.cdiv(groups.count, GROUP):
        raise DataError("groups of several runs: on a GPU, groups are those of one run of values")


def _lanes(bits: int) -> int:
    """Bytes of eight codes, as the power of two that a block's side has to be."""
    lanes: int = triton.next_power_of_2(bits)
    return lanes


def _signed(seed: int) -> int:
    """The same 32 bits as a number that a kernel takes for int32, whatever it is."""
    return (seed + 2**31) % 2**32 - 2**31


@triton.jit(do_not_specialize=["seed"])  # type: ignore[untyped-decorator]
def _encode(
    values: tl.tensor,
    kept: tl.tensor,
    steps: tl.tensor,
    codes: tl.tensor,
    total: tl.tensor,
    seed: tl.tensor,
    bits: tl.constexpr,
    lanes: tl.constexpr,
    feedback: tl.constexpr,
    random: tl.constexpr,
) -> None:
    group = tl.program_id(0)
    begin = group.to(tl.int64) * _FULL
    octets = tl.arange(0, _OCTETS)
    eight = tl.arange(0, 8)
    places = begin + octets[:, None] * 8 + eight[None, :]
    there = places < total
    x = tl.load(values + places, mask=there, other=0.0)
    if feedback:
        x += tl.load(kept + places, mask=there, other=0.0)
    magnitude = tl.abs(x)
    most: tl.constexpr = 1.0 if bits == 1 else 2.0 ** (bits - 1) - 1
    if bits == 1:
        count = tl.minimum(total - begin, _FULL).to(tl.float32)
        scale = tl.math.div_rn(_sum(magnitude), count)
    else:
        scale = tl.max(tl.max(magnitude, axis=1), axis=0)
        scale = tl.where(scale < _TINY, 0.0, scale)
    step = tl.math.div_rn(scale, most)
    if bits == 1:
        whole = tl.where(x >= 0, 1.0, -1.0)
        code = tl.where(x >= 0, 1, 0)
    else:
        inverse = tl.where(scale > 0, tl.math.div_rn(most, scale), 0.0)
        if random:
            word = places.to(tl.uint32) * _PLACE + seed.to(tl.uint32)
            word = (word ^ (word >> 16)) * _FIRST
            word = (word ^ (word >> 15)) * _SECOND
            drawn = (word >> (32 - _FRACTION)).to(tl.int32)
            fixed = _rint(x * (inverse * 2.0**_FRACTION)).to(tl.int32)
            whole = tl.minimum((fixed + drawn) >> _FRACTION, most).to(tl.float32)
        else:
            whole = _rint(x * inverse)
        code = (whole + most).to(tl.int32)
    tl.store(steps + group, step)
    if feedback:
        tl.store(kept + places, x - whole * step, mask=there)
    code = tl.where(there, code, 0).to(tl.uint64)
    joined = tl.sum(code << (bits * eight[None, :]).to(tl.uint64), axis=1)
    lane = tl.arange(0, lanes)
    byte = (joined[:, None] >> (8 * lane[None, :]).to(tl.uint64)) & 255
    at = octets[:, None] * bits + lane[None, :]
    size = (tl.minimum(total - begin, _FULL) * bits + 7) // 8
    tl.store(codes + begin * bits // 8 + at, byte.to(tl.uint8), mask=(lane[None, :] < bits) & (at < size))


@triton.jit  # type: ignore[untyped-decorator]
def _decode(
    codes: tl.tensor,
    steps: tl.tensor,
    out: tl.tensor,
    total: tl.tensor,
    bits: tl.constexpr,
    lanes: tl.constexpr,
    add: tl.constexpr,
) -> None:
    group = tl.program_id(0)
    begin = group.to(tl.int64) * _FULL
    octets = tl.arange(0, _OCTETS)
    lane = tl.arange(0, lanes)
    at = octets[:, None] * bits + lane[None, :]
    size = (tl.minimum(total - begin, _FULL) * bits + 7) // 8
    byte = tl.load(codes + begin * bits // 8 + at, mask=(lane[None, :] < bits) & (at < size), other=0)
    joined = tl.sum(byte.to(tl.uint64) << (8 * lane[None, :]).to(tl.uint64), axis=1)
    eight = tl.arange(0, 8)
    code = ((joined[:, None] >> (bits * eight[None, :]).to(tl.uint64)) & (2**bits - 1)).to(tl.int32)
    if bits == 1:
        whole = (2 * code - 1).to(tl.float32)
    else:
        whole = (code - (2 ** (bits - 1) - 1)).to(tl.float32)
    places = begin + octets[:, None] * 8 + eight[None, :]
    value = whole * tl.load(steps + group)
    if add:
        value += tl.load(out + places, mask=places < total, other=0.0)
    tl.store(out + places, value, mask=places < total)


@triton.jit  # type: ignore[untyped-decorator]
def _rint(x: tl.tensor) -> tl.tensor:
    """To the nearest, ties to even, below 2**23: the sum has no room for a fraction."""
    whole = (tl.abs(x) + _WHOLE) - _WHOLE
    return tl.where(x < 0, -whole, whole) + 0.0


@triton.jit  # type: ignore[untyped-decorator]
def _sum(magnitudes: tl.tensor) -> tl.tensor:
    """Of a full group, each half onto the other."""
    sums = tl.reshape(magnitudes, (_FULL,))
    for level in tl.static_range(9):
        sums = tl.sum(tl.reshape(sums, (2, _FULL >> (level + 1))), axis=0)
    return tl.sum(sums, axis=0)
