"""The first steps measure whether overlap pays: some are made with it, and as many without.

Both modes average the same segments, so that the choice changes no bit of a training.
"""

from __future__ import annotations

from statistics import median

from bitlane.policies.protocol import AllGather

WARMUP_STEPS, PAIRS = 2, 4


class OverlapTrial:
    """Alternates between steps with and without overlap, and then keeps the faster mode."""

    def __init__(self) -> None:
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._steps = 0
        self._choice: bool | None = None

    @property
    def ended(self) -> bool:
        """Whether the choice is made."""
        return self._choice is not None

    @property
    def overlaps(self) -> bool:
        """Whether the next step overlaps; the same on all ranks."""
        return self._steps % 2 == 0 if self._choice is None else self._choice

    def add(self, seconds: float, all_gather: AllGather) -> None:
        """Add a step, from its forward pass to its average. All ranks call it after the same steps.

        The last call exchanges the medians of both modes; the mode with the faster slowest rank is kept.
        """
        self._seconds[self.overlaps].append(seconds)
        self._steps += 1
        if self._steps == WARMUP_STEPS + 2 * PAIRS:
            own = [median(self._seconds[kind][WARMUP_STEPS // 2 :]) for kind in (True, False)]
            slowest = [max(each) for each in zip(*all_gather(own), strict=True)]
            self._choice = slowest[0] <= slowest[1]
