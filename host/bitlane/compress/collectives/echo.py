"""A transport without other ranks, to measure and to compile what one rank does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class EchoTransport:
    """A transport without other ranks: it receives its own bytes, or zeros. Only times and byte counts are valid."""

    def __init__(self, size: int):
        self.rank = 0
        self.size = size
        self.device = torch.device("cpu")
        self.sent = 0
        self.rounds = self.bytes = 0

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        outgoing = sum(map(len, buffers[1:]))
        self.sent += outgoing
        self.rounds += 1
        self.bytes += max(outgoing, sum(lengths[1:]))
        own = buffers[0]
        return [own.clone() if len(own) == length else torch.zeros(length, dtype=torch.uint8) for length in lengths]

    def abort(self) -> None:
        """Do nothing: no other rank waits."""

    def close(self) -> None:
        """Do nothing: there is no connection."""
