"""The protocol of bit policies: the bits of a value, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]  # own numbers to all ranks; every rank's, in order


@dataclass(frozen=True)
class Observation:
    """The observation of one rank after a step.

    Attributes
    ----------
    loss : float or None
        Mean over the rank's batch; None if it was not reported.
    seconds : float
        Duration of the complete step.
    rms : callable
        Returns the root mean square of the average gradient that all ranks applied. Policies that need it call it.
    """

    loss: float | None
    seconds: float
    rms: Callable[[], float]


class BitPolicy(Protocol):
    """The settings of a policy: a frozen dataclass whose repr shows all of them."""

    @property
    def choices(self) -> Sequence[int]:
        """Bits among which the policy chooses, in ascending order."""
        ...

    def start(self) -> BitChooser:
        """Return a chooser at its first step."""
        ...


class BitChooser(Protocol):
    """The state of a policy on one rank. All ranks choose the same bits, from numbers that all ranks have exchanged."""

    @property
    def bits(self) -> int:
        """Bits of the next step."""
        ...

    def after(self, observed: Observation, share: AllGather) -> None:
        """Observe a step. Every rank calls it after the same steps.

        Parameters
        ----------
        observed : Observation
        share : AllGather
            Sends numbers, 8 bytes each, to every other rank, and returns the numbers of all ranks.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the arrays and numbers that later choices depend on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`. Raise DataError if it belongs to a policy with other settings."""
        ...


@dataclass(frozen=True)
class FixedBits:
    """The policy with the same bits in every step."""

    bits: int

    @property
    def choices(self) -> Sequence[int]:
        return (self.bits,)

    def start(self) -> FixedBits:
        return self

    def after(self, observed: Observation, share: AllGather) -> None:
        """Ignore the step."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Ignore the state, which is empty."""
