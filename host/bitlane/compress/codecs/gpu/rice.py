"""Golomb-Rice codes of indices on a GPU, in operations of torch: byte-identical to `codecs.rice`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..rice import MAX_PREFIX_BYTES, PARAMETERS, out_of_range, prefix, read_prefix, shortest, tried_parameters
from ..wire import PayloadError


def encode(indices: Tensor, n: int) -> Tensor:
    """Encode indices int64 [k], ascending, on their device as `rice.encode` does; they are not checked.

    Waits for the device once.
    """
    gaps = torch.diff(indices, prepend=indices.new_full((1,), -1)) - 1
    tried = torch.arange(len(tried_parameters(len(gaps), n)), device=indices.device)
    quotients = (gaps >> tried[:, None]).sum(1).tolist()
    parameter = shortest(len(gaps), quotients)
    ones = (gaps >> parameter).add_(1).cumsum(0)
    unary = torch.zeros(quotients[parameter] + len(gaps), dtype=torch.bool, device=indices.device)
    unary[ones - 1] = True
    low = (gaps[:, None] >> tried[:parameter] & 1).bool()
    head = torch.from_numpy(prefix(64 * len(indices) + parameter)).to(indices.device)
    return torch.cat([head, pack_bits(low.flatten()), pack_bits(unary)])


def decode(codes: Tensor, n: int) -> Tensor:
    """Return the indices int64 [k] of a vector of n values, as `rice.decode` does.

    Waits for the device three times.

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
    if len(ones) != count:
        raise _wrong_length(count, codes)
    bits = unpack_bits(codes[begin:cut])
    if not count:
        if len(codes) > cut:
            raise _wrong_length(count, codes)
        return ones
    quotients = torch.diff(ones, prepend=ones.new_full((1,), -1)) - 1
    low = bits[: count * parameter].view(count, parameter).long()
    gaps = (quotients << parameter) + (low << torch.arange(parameter, device=codes.device)).sum(1)
    indices = (gaps + 1).cumsum(0) - 1
    # One copy to the host. Numbers above 2**53 are rounded in float64, and far out of range; the sum does not overflow.
    checked = [ones[-1], bits[count * parameter :].any(), quotients.max(), gaps.sum(dtype=torch.float64), indices[-1]]
    last_one, rest, largest, total, last = torch.stack([each.double() for each in checked]).tolist()
    if (int(last_one) + 8) // 8 != len(codes) - cut:
        raise _wrong_length(count, codes)
    if rest:
        raise PayloadError("codes of indices have bits set after the last index")
    if largest > n >> parameter or total > n or last >= n:
        raise out_of_range(n)
    return indices


def _wrong_length(count: int, codes: Tensor) -> PayloadError:
    return PayloadError(f"codes of {count} indices are truncated or too long: {len(codes)} bytes")


def pack_bits(flags: Tensor) -> Tensor:
    """Return flags, bool [n], eight in a byte, the first in the lowest bit: uint8 [(n + 7) // 8]."""
    padded = torch.zeros((len(flags) + 7) // 8 * 8, dtype=torch.uint8, device=flags.device)
    padded[: len(flags)] = flags
    weights = 1 << torch.arange(8, device=flags.device)
    return (padded.view(-1, 8) * weights).sum(1).to(torch.uint8)


def unpack_bits(packed: Tensor) -> Tensor:
    """Return the bits of bytes uint8 [n], the lowest first: bool [8 n]."""
    return (packed[:, None].long() >> torch.arange(8, device=packed.device) & 1).bool().flatten()
