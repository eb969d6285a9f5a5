"""Codes of 1 to 8 bits side by side, and single bits, on a GPU: the bytes of `codecs.packing` and `numpy.packbits`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..groups import Groups


class GroupPlaces:
    """Where the values and codes of groups are.

    Parameters
    ----------
    groups : Groups
    device : torch.device

    Attributes
    ----------
    group : Tensor, int64 [groups.count]
        The group of each value.
    """

    def __init__(self, groups: Groups, device: torch.device):
        octets = (groups.lengths + 7) // 8  # of codes: eight codes of b bits are b bytes
        first = 8 * (np.cumsum(octets) - octets) - groups.starts[:-1]
        lengths = torch.from_numpy(groups.lengths).to(device)
        self._groups, self._octets = groups, int(octets.sum())
        self.group = torch.repeat_interleave(torch.arange(len(groups), device=device), lengths)
        self._place = torch.arange(groups.count, device=device) + torch.from_numpy(first).to(device)[self.group]

    def pack(self, codes: Tensor, bits: int) -> Tensor:
        """Pack codes int64 [groups.count] as `codecs.packing.pack` does."""
        padded = torch.zeros(8 * self._octets, dtype=torch.int64, device=codes.device)
        padded[self._place] = codes
        shifts = torch.arange(8, device=codes.device)
        joined = (padded.view(-1, 8) << (bits * shifts)).sum(1)
        packed = ((joined[:, None] >> (8 * shifts[:bits])) & 255).to(torch.uint8).flatten()
        return packed[self._is_sent(bits, codes.device)]

    def unpack(self, packed: Tensor, bits: int) -> Tensor:
        """Return the codes, int64 [groups.count]."""
        spread = torch.zeros(self._octets * bits, dtype=torch.int64, device=packed.device)
        spread[self._is_sent(bits, packed.device)] = packed.long()
        shifts = torch.arange(8, device=packed.device)
        joined = (spread.view(-1, bits) << (8 * shifts[:bits])).sum(1)
        codes = (joined[:, None] >> (bits * shifts)) & (2**bits - 1)
        return codes.flatten()[self._place]

    def _is_sent(self, bits: int, device: torch.device) -> Tensor:
        """Return which bytes of whole octets are sent, bool [octets * bits]: a group's last octet may be cut."""
        whole, sent = (self._groups.lengths + 7) // 8 * bits, self._groups.code_bytes(bits)
        begins = np.cumsum(whole) - whole
        return torch.from_numpy(np.arange(whole.sum()) < np.repeat(begins + sent, whole)).to(device)


def pack_bits(bits: Tensor) -> Tensor:
    """Return single bits, bool [n], eight in a byte, the first in the lowest bit: uint8 [(n + 7) // 8]."""
    padded = torch.zeros((len(bits) + 7) // 8 * 8, dtype=torch.uint8, device=bits.device)
    padded[: len(bits)] = bits
    weights = 1 << torch.arange(8, device=bits.device)
    return (padded.view(-1, 8) * weights).sum(1).to(torch.uint8)


def unpack_bits(packed: Tensor) -> Tensor:
    """Return the bits of bytes uint8 [n], the lowest first: bool [8 n]."""
    return (packed[:, None].long() >> torch.arange(8, device=packed.device) & 1).bool().flatten()
