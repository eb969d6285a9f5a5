"""Statistics of a rank's steps: bytes sent, values and times."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class StepTraffic:
    """The traffic of one or several steps on one rank.

    Attributes
    ----------
    bytes_sent : int
        Bytes sent to other ranks.
    ring_bytes : float
        Bytes that a rank sends in a ring all-reduce of the same values in float32: 2 (n - 1) / n * 4 per value.
    values : int
        Values averaged.
    bits : float
        Bits per value in the last step, as a mean over groups; 0 if the codec has no bit width.
    codec_seconds : float
        All other time of the hook: collecting the buckets, encoding, adding, decoding, and returning the averages.
    communication_seconds : float
        Time in exchanges, including waiting for other ranks.
    blocking_seconds : float
        Time in which the training waited for the hook: the sum of the two above, without overlap.
    """

    bytes_sent: int = 0
    ring_bytes: float = 0.0
    values: int = 0
    bits: float = 0
    codec_seconds: float = 0.0
    communication_seconds: float = 0.0
    blocking_seconds: float = 0.0

    @property
    def ratio(self) -> float:
        """Bytes sent divided by those of a ring all-reduce in float32; 0 with a single rank."""
        return self.bytes_sent / self.ring_bytes if self.ring_bytes else 0.0

    def add(self, step: StepTraffic) -> None:
        """Add a step."""
        self.bytes_sent += step.bytes_sent
        self.ring_bytes += step.ring_bytes
        self.values += step.values
        self.bits = step.bits
        self.codec_seconds += step.codec_seconds
        self.communication_seconds += step.communication_seconds
        self.blocking_seconds += step.blocking_seconds


@dataclass
class Stats(StepTraffic):
    """The traffic of the last step, and totals.

    Attributes
    ----------
    steps : int
        Number of steps.
    skipped : int
        Steps with non-finite values whose average was set to zero.
    uncompressed : int
        Steps that were averaged uncompressed: the first ones (`start`), and those with non-finite or very large values.
    total : StepTraffic
        The sum over all steps.
    """

    steps: int = 0
    skipped: int = 0
    uncompressed: int = 0
    total: StepTraffic = field(default_factory=StepTraffic)

    def record(self, step: StepTraffic) -> None:
        """Record a step as the last one, and add it to the total."""
        for name, value in vars(step).items():
            setattr(self, name, value)
        self.steps += 1
        self.total.add(step)


def ring_bytes(values: int, ranks: int) -> float:
    """Return the bytes that a rank sends in a ring all-reduce of float32 values."""
    return 2 * (ranks - 1) / ranks * 4 * values
