"""Single bits side by side on a GPU, in operations of torch: the bytes of `numpy.packbits`."""

from __future__ import annotations

import torch
from torch import Tensor


def pack_bits(bits: Tensor) -> Tensor:
    """Return single bits, bool [n], eight in a byte, the first in the lowest bit: uint8 [(n + 7) // 8]."""
    padded = torch.zeros((len(bits) + 7) // 8 * 8, dtype=torch.uint8, device=bits.device)
    padded[: len(bits)] = bits
    weights = 1 << torch.arange(8, device=bits.device)
    return (padded.view(-1, 8) * weights).sum(1).to(torch.uint8)


def unpack_bits(packed: Tensor) -> Tensor:
    """Return the bits of bytes uint8 [n], the lowest first: bool [8 n]."""
    return (packed[:, None].long() >> torch.arange(8, device=packed.device) & 1).bool().flatten()
