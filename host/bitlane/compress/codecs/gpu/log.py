"""Logarithmic levels on a GPU, in operations of torch: the bytes of `codecs.log`.

torch divides correctly rounded, and each operation is a kernel of its own, so that no multiplication is fused with an
addition.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..groups import MIN_SCALE, Groups
from ..log import body_bytes, levels, thresholds
from ..wire import PayloadError
from .packing import GroupPlaces


def encode(values: Tensor, groups: Groups, bits: int, alpha: float, residual: Tensor | None) -> Tensor:
    """Encode values float32 [groups.count] on their device as `log.encode` does; they are not checked for NaN."""
    total = values if residual is None else values + residual
    places = GroupPlaces(groups, values.device)
    scale = torch.zeros(len(groups), device=values.device).scatter_reduce_(0, places.group, total.abs(), "amax")
    scale[scale < float(MIN_SCALE)] = 0
    divisor = torch.where(scale > 0, scale, torch.inf)[places.group]
    level = torch.searchsorted(torch.tensor(thresholds(bits, alpha), device=values.device), total.abs() / divisor)
    most = 2 ** (bits - 1) - 1
    codes = torch.where(total < 0, most - level, most + level)
    if residual is not None:
        table = torch.tensor(levels(bits, alpha), device=values.device)
        residual.copy_(total - table[codes] * scale[places.group])
    return torch.cat([scale.view(torch.uint8), places.pack(codes, bits)])


def decode(body: Tensor, groups: Groups, bits: int, alpha: float, out: Tensor, add: bool) -> None:
    """Write the decoded values to `out` float32 [groups.count], or add them to it.

    Raises
    ------
    PayloadError
        If the body has another length.
    """
    if body.shape != (body_bytes(groups, bits),):
        found = f"{body.dtype} {tuple(body.shape)}"
        raise PayloadError(f"body is {found}, which is not that of {groups.count} values at {bits} bits")
    places = GroupPlaces(groups, out.device)
    scale = body[: 4 * len(groups)].clone().view(torch.float32)
    table = torch.tensor(levels(bits, alpha), device=out.device)
    values = table[places.unpack(body[4 * len(groups) :], bits)] * scale[places.group]
    if add:
        out += values
    else:
        out.copy_(values)
