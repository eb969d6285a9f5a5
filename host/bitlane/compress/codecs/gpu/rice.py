"""Golomb-Rice codes of indices on a GPU, in operations of torch: the bytes of `codecs.rice`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..rice import MAX_PREFIX_BYTES, PARAMETERS, find_parameter, out_of_range, prefix, read_prefix
from ..wire import PayloadError
from .packing import pack_bits, unpack_bits


def encode(indices: Tensor) -> Tensor:
    """Encode indices int64 [k], ascending, on their device as `rice.encode` does; they are not checked."""
    gaps = torch.diff(indices, prepend=indices.new_full((1,), -1)) - 1
    parameter = find_parameter(len(gaps), lambda shift: int((gaps >> shift).sum()))
    ones = (gaps >> parameter).add_(1).cumsum(0)
    unary = torch.zeros(int(ones[-1]) if len(ones) else 0, dtype=torch.bool, device=indices.device)
    unary[ones - 1] = True
    low = (gaps[:, None] >> torch.arange(parameter, device=indices.device) & 1).bool()
    head = torch.from_numpy(prefix(64 * len(indices) + parameter)).to(indices.device)
    return torch.cat([head, pack_bits(low.flatten()), pack_bits(unary)])


def decode(codes: Tensor, n: int) -> Tensor:
    """Return the indices int64 [k] of a vector of n values, as `rice.decode` does.

    Raises
    ------
    PayloadError
        If `rice.encode` cannot have produced the codes.
    """
    count, parameter, begin = read_prefix(codes[:MAX_PREFIX_BYTES].cpu().numpy())
    cut = begin + (count * parameter + 7) // 8
    if parameter not in PARAMETERS or cut > len(codes):
        raise PayloadError(f"codes of {count} indices are truncated: {len(codes)} bytes, parameter {parameter}")
    ones = unpack_bits(codes[cut:]).nonzero().flatten()
    end = int(ones[-1]) + 1 if len(ones) else 0
    if len(ones) != count or (end + 7) // 8 != len(codes) - cut:
        raise PayloadError(f"codes of {count} indices are truncated or too long: {len(codes)} bytes")
    bits = unpack_bits(codes[begin:cut])
    if bool(bits[count * parameter :].any()):
        raise PayloadError("codes of indices have bits set after the last index")
    gaps = torch.diff(ones, prepend=ones.new_full((1,), -1)) - 1
    if count and int(gaps.max()) > n >> parameter:
        raise out_of_range(n)
    low = bits[: count * parameter].view(count, parameter).long()
    gaps = (gaps << parameter) + (low << torch.arange(parameter, device=codes.device)).sum(1)
    if count and float(gaps.double().sum()) > n:  # in float64, so that no sum below overflows
        raise out_of_range(n)
    indices = (gaps + 1).cumsum(0) - 1
    if count and int(indices[-1]) >= n:
        raise out_of_range(n)
    return indices
