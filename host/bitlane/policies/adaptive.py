"""More bits for larger gradients, the method of Oland and Raj (2015) as Cui et al. (2018, section 2) describe it.

That description says that bits grow with the root mean square of the gradient. The formula is ours: one bit more for
each doubling, so that the distance between two levels stays about the same.

    bits = start_bits + log2(rms / first rms), rounded to an integer, within the choices
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
    """A policy that uses more bits for larger gradients.

    Parameters
    ----------
    start_bits : int
        Bits for a gradient as large as the first.
    choices : sequence of int
        Bits that the policy may choose, in ascending order without gaps.
    period : int
        Steps between two looks at the gradient.
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
    """Chooses by the size of rank 0's copy of the average gradient, so that all ranks choose the same bits."""

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
        """Choose bits for a gradient of this size. Sizes that are 0 or not finite change nothing."""
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
