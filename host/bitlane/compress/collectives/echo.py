"""A transport without other ranks, to measure and to compile what one rank does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class EchoTransport:
    """A transport without other ranks: it receives its own bytes, or zeros. Only times and counts are valid.

    Attributes
    ----------
    sent : int
        Bytes for other ranks.
    messages : int
        Number of messages that are not empty.
    rounds : int
        Number of exchanges.
    bytes : int
        The larger of incoming and outgoing bytes, summed over rounds.
    """

    def __init__(self, size: int):
        self.rank = 0
        self.size = size
        self.device = torch.device("cpu")
        self.reset_counts()

    def reset_counts(self) -> None:
        """Begin to count anew."""
        self.sent = self.messages = self.rounds = self.bytes = 0

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        outgoing = sum(map(len, buffers[1:]))
        self.sent += outgoing
        self.messages += sum(len(buffer) > 0 for buffer in buffers[1:])
        self.rounds += 1
        self.bytes += max(outgoing, sum(lengths[1:]))
        own = buffers[0]
        return [own.clone() if len(own) == length else torch.zeros(length, dtype=torch.uint8) for length in lengths]

    def abort(self) -> None:
        """Do nothing: no other rank waits."""

    def close(self) -> None:
        """Do nothing: there is no connection."""
