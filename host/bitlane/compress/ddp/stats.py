"""What a rank's steps moved, and the time that took."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Traffic:
    """What one step, or several, moved.

    Attributes
    ----------
    bytes_sent: by this rank, every byte that goes to another rank.
    ring_bytes: what ring all-reduce of the same values in float32 has a rank send, 2 (n - 1) / n * 4 a value.
    values, applied: values averaged, and those whose average was not 0.
    bits: a value, of the latest step; 0 where a codec has no such thing.
    codec_seconds: in the compressor.
    communication_seconds: in exchanges, waiting for other ranks included.
    """

    bytes_sent: int = 0
    ring_bytes: float = 0.0
    values: int = 0
    applied: int = 0
    bits: int = 0
    codec_seconds: float = 0.0
    communication_seconds: float = 0.0

    @property
    def ratio(self) -> float:
        """Bytes sent to those of ring all-reduce; 0 where one rank alone has nobody to send to."""
        return self.bytes_sent / self.ring_bytes if self.ring_bytes else 0.0

    @property
    def density(self) -> float:
        """The share of values whose average was not 0."""
        return self.applied / self.values if self.values else 0.0

    def add(self, step: Traffic) -> None:
        """Take in a step."""
        self.bytes_sent += step.bytes_sent
        self.ring_bytes += step.ring_bytes
        self.values += step.values
        self.applied += step.applied
        self.bits = step.bits
        self.codec_seconds += step.codec_seconds
        self.communication_seconds += step.communication_seconds


@dataclass
class Stats(Traffic):
    """What the latest step moved; `total` is all `steps` together.

    Attributes
    ----------
    skipped, uncompressed: steps with a value that was not finite, left out or passed on in float32.
    """

    steps: int = 0
    skipped: int = 0
    uncompressed: int = 0
    total: Traffic = field(default_factory=Traffic)

    def record(self, step: Traffic) -> None:
        """Make `step` the latest."""
        for name, value in vars(step).items():
            setattr(self, name, value)
        self.steps += 1
        self.total.add(step)


def ring_bytes(values: int, ranks: int) -> float:
    """Bytes that a rank sends in ring all-reduce of so many float32."""
    return 2 * (ranks - 1) / ranks * 4 * values
