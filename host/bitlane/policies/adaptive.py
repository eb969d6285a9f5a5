"""More bits for larger gradients, as the MQGrad paper (Cui et al., 2018, section 2) describes Oland and Raj (2015).

That description is all that this follows: bits grow with the root mean square of the gradient. The rule is chosen here:
one bit more for each doubling, so that the distance between two levels stays about the same.

    bits = start_bits + log2(rms / first rms), to the nearest whole number, within the choices
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log2
from typing import Any

from bitlane.errors import DataError

from .choices import BIT_CHOICES, check_choices, check_period, check_state
from .protocol import AllGather, Observation


@dataclass(frozen=True)
class Adaptive:
    """Settings.

    Parameters
    ----------
    start_bits: for gradients as large as the first that was seen.
    choices: the bits that it may choose, ascending without a gap.
    period: steps from one look at the gradient to the next.
    """

    start_bits: int = 4
    choices: Sequence[int] = BIT_CHOICES
    period: int = 5

    def __post_init__(self) -> None:
        check_choices(self.choices)
        check_period(self.period, 1)
        if self.start_bits not in self.choices:
            raise DataError(f"start_bits={self.start_bits!r}: it must be one of choices={self.choices!r}")

    def start(self) -> AdaptiveChooser:
        return AdaptiveChooser(self)


class AdaptiveChooser:
    """Goes by the size of rank 0's copy of the average, so that all ranks choose alike whatever adds it up."""

    def __init__(self, settings: Adaptive):
        self.settings = settings
        self._steps = 0
        self._first = 0.0  # rms; 0 until there is one
        self._bits = settings.start_bits

    @property
    def bits(self) -> int:
        return self._bits

    def after(self, observed: Observation, share: AllGather) -> None:
        self._steps += 1
        if self._steps % self.settings.period == 0:
            self._choose(share([observed.rms()])[0][0])

    def _choose(self, rms: float) -> None:
        """Gradients of zero and those that are not finite say nothing."""
        if not isfinite(rms) or rms <= 0:
            return
        self._first = self._first or rms
        wanted = self.settings.start_bits + floor(log2(rms / self._first) + 0.5)
        self._bits = min(self.settings.choices, key=lambda bits: abs(bits - wanted))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "first": self._first, "bits": self._bits}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._steps, self._first, self._bits = int(state["steps"]), float(state["first"]), int(state["bits"])
