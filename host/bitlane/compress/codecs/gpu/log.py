"""Logarithmic levels on a GPU: one program per group, byte-identical to `codecs.log`.

Division rounds correctly, and no multiplication is fused with an addition. A value finds its level among the thresholds
by bisection.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..groups import MIN_SCALE, Groups
from ..log import body_bytes, levels, thresholds
from ..wire import PayloadError
from .octets import FULL, OPTIONS, indices_in_group, lanes, load_codes, store_codes, tl, triton

_MIN_SCALE = tl.constexpr(float(MIN_SCALE))


def encode(values: Tensor, groups: Groups, bits: int, alpha: float, residual: Tensor | None) -> Tensor:
    """Encode contiguous values float32 [groups.count] on their device as `log.encode` does; NaN is not checked."""
    body = torch.empty(body_bytes(groups, bits), dtype=torch.uint8, device=values.device)
    if len(groups):
        scales, codes = body[: 4 * len(groups)].view(torch.float32), body[4 * len(groups) :]
        spans, tables = _spans(groups, bits, values.device), _tables(bits, alpha, values.device)
        _encode[(len(groups),)](
            values, residual, scales, codes, spans, groups.count, *tables, bits, lanes(bits), **OPTIONS
        )  # fmt: skip
    return body


def decode(body: Tensor, groups: Groups, bits: int, alpha: float, out: Tensor, add: bool) -> None:
    """Write the decoded values to `out`, contiguous float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    if body.shape != (body_bytes(groups, bits),):
        actual = f"{body.dtype} {tuple(body.shape)}"
        raise PayloadError(f"body is {actual}, which is not that of {groups.count} values at {bits} bits")
    if len(groups):
        scales, codes = body[: 4 * len(groups)].clone().view(torch.float32), body[4 * len(groups) :]
        spans, (_, table) = _spans(groups, bits, out.device), _tables(bits, alpha, out.device)
        _decode[(len(groups),)](codes, scales, spans, out, groups.count, table, bits, lanes(bits), add, **OPTIONS)


def _spans(groups: Groups, bits: int, device: torch.device) -> Tensor | None:
    """Return each group's first value, values and first byte, int64 [groups, 3]; None where all groups are full."""
    if groups.are_full:
        return None
    sizes = groups.code_bytes(bits)
    spans = np.stack([groups.starts[:-1], groups.lengths, np.cumsum(sizes) - sizes], axis=1)
    return torch.from_numpy(spans).to(device)


@lru_cache
def _tables(bits: int, alpha: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the thresholds and the levels on a device."""
    return torch.tensor(thresholds(bits, alpha), device=device), torch.tensor(levels(bits, alpha), device=device)


@triton.jit  # type: ignore[untyped-decorator]
def _encode(  # noqa: PLR0913  # a kernel has no objects
    values: tl.tensor,
    residual: tl.tensor,
    scales: tl.tensor,
    codes: tl.tensor,
    spans: tl.tensor,
    total: tl.tensor,
    thresholds: tl.tensor,
    levels: tl.tensor,
    bits: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """Encode one group. `residual` may be None; Triton compiles each case."""
    group = tl.program_id(0)
    begin, count, first_byte = _span(spans, group, total, bits)
    indices = begin + indices_in_group()
    valid = indices_in_group() < count
    x = tl.load(values + indices, mask=valid, other=0.0)
    if residual is not None:
        x += tl.load(residual + indices, mask=valid, other=0.0)
    magnitude = tl.abs(x)
    scale = tl.max(tl.max(magnitude, axis=1), axis=0)
    scale = tl.where(scale < _MIN_SCALE, 0.0, scale)
    share = tl.where(scale > 0, tl.math.div_rn(magnitude, tl.where(scale > 0, scale, 1.0)), 0.0)
    level = tl.zeros(share.shape, tl.int32)
    for k in tl.static_range(bits - 1):
        higher = level + (1 << (bits - 2 - k))
        level = tl.where(tl.load(thresholds + higher - 1) < share, higher, level)
    most = (1 << (bits - 1)) - 1
    code = tl.where(x < 0, most - level, most + level)
    tl.store(scales + group, scale)
    if residual is not None:
        tl.store(residual + indices, x - tl.load(levels + code) * scale, mask=valid)
    store_codes(tl.where(valid, code, 0), codes + first_byte, count, bits, lanes)


@triton.jit  # type: ignore[untyped-decorator]
def _decode(  # noqa: PLR0913  # a kernel has no objects
    codes: tl.tensor,
    scales: tl.tensor,
    spans: tl.tensor,
    out: tl.tensor,
    total: tl.tensor,
    levels: tl.tensor,
    bits: tl.constexpr,
    lanes: tl.constexpr,
    add: tl.constexpr,
) -> None:
    group = tl.program_id(0)
    begin, count, first_byte = _span(spans, group, total, bits)
    code = load_codes(codes + first_byte, count, bits, lanes)
    indices = begin + indices_in_group()
    valid = indices_in_group() < count
    value = tl.load(levels + code) * tl.load(scales + group)
    if add:
        value += tl.load(out + indices, mask=valid, other=0.0)
    tl.store(out + indices, value, mask=valid)


@triton.jit  # type: ignore[untyped-decorator]
def _span(spans: tl.tensor, group: tl.tensor, total: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """Return a group's first value, its values and its first byte, int64."""
    if spans is None:
        begin = group.to(tl.int64) * FULL
        count, first_byte = tl.minimum(total - begin, FULL), group.to(tl.int64) * (FULL * bits // 8)
    else:
        begin, count = tl.load(spans + 3 * group), tl.load(spans + 3 * group + 1)
        first_byte = tl.load(spans + 3 * group + 2)
    return begin, count, first_byte
