"""Statistics of semi-synchronous training: the bytes sent, beside those of an average in each step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LocalStats:
    """What one rank has done since its `DiLoCo` was made. What the start sends is left out.

    Attributes
    ----------
    steps : int
        Inner steps.
    rounds : int
        Fragments averaged.
    bytes_sent : int
        Bytes sent to other ranks.
    ring_bytes : float
        Bytes that DistributedDataParallel sends in as many steps, by ring all-reduce in float32.
    skipped : int
        Rounds with non-finite values whose average was set to zero.
    uncompressed : int
        Rounds that were averaged in float32, because of non-finite or very large values.
    """

    steps: int
    rounds: int
    bytes_sent: int
    ring_bytes: float
    skipped: int
    uncompressed: int

    @property
    def ratio(self) -> float:
        """Bytes sent divided by those of DistributedDataParallel; 0 before the first step or with a single rank."""
        return self.bytes_sent / self.ring_bytes if self.ring_bytes else 0.0
