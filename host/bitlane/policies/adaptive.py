"""A bit policy that uses more bits for larger gradients.

It follows the description of Oland and Raj (2015) in the MQGrad paper (Cui et al., 2018, section 2): the bits grow with
the root mean square of the gradient. The exact rule is ours: one more bit for each doubling, so that the distance
between two levels stays about the same.

    bits = start_bits + log2(rms / first rms), rounded to the nearest of the choices
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
    """A bit policy that follows the root mean square of the gradient.

    Parameters
    ----------
    start_bits : int, default: 4
        Bits for gradients with the root mean square of the first observed gradient.
    choices : sequence of int, default: 2 to 8
        The allowed bits, ascending without gaps.
    period : int, default: 5
        Steps between observations of the gradient.

    Examples
    --------
    >>> from bitlane.compress import Adaptive
    >>> Adaptive(start_bits=4).start().bits
    4
    """

    start_bits: int = 4
    choices: Sequence[int] = BIT_CHOICES
    period: int = 5

    def __post_init__(self) -> None:
        check_choices(self.choices)
        check_period(self.period, 1)
        if self.start_bits not in self.choices:
            raise DataError(f"start_bits must be one of choices={self.choices!r}; got {self.start_bits!r}")

    def start(self) -> AdaptiveChooser:
        """Return a chooser for the first step."""
        return AdaptiveChooser(self)


class AdaptiveChooser:
    """The chooser of `Adaptive`. All ranks use the root mean square of rank 0, so that they choose the same bits."""

    def __init__(self, adaptive: Adaptive):
        self.settings = adaptive
        self._steps = 0
        self._first = 0.0  # the first root mean square; 0 before the first observation
        self._bits = adaptive.start_bits

    @property
    def bits(self) -> int:
        return self._bits

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        self._steps += 1
        if self._steps % self.settings.period == 0:
            self._choose(all_gather([observed.rms()])[0][0])

    def _choose(self, rms: float) -> None:
        """Choose the bits for a root mean square; ignore zero and non-finite values."""
        if not isfinite(rms) or rms <= 0:
            return
        self._first = self._first or rms
        wanted = self.settings.start_bits + floor(log2(rms / self._first) + 0.5)
        self._bits = min(self.settings.choices, key=lambda bits: abs(bits - wanted))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "first": self._first, "bits": self._bits}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._steps = int(state["steps"])
        self._first = float(state["first"])
        self._bits = int(state["bits"])
