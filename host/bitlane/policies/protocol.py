"""The protocols of bit policies, and the policy of fixed bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]
"""Sends the numbers of this rank to all ranks, and returns those of all ranks in order; 8 bytes per number."""


@dataclass(frozen=True)
class Observation:
    """The observation of a completed step on one rank.

    Attributes
    ----------
    loss : float or None
        Mean loss of this rank's batch; None if it was not reported.
    seconds : float
        Duration of the step, from the beginning of its forward pass. Pauses between steps are no part of it.
    rms : callable
        Computes the root mean square of the average gradient.
    has_batch : bool, default: True
        False on a rank that has no more data, and only takes part in the exchanges (`Join`).
    """

    loss: float | None
    seconds: float
    rms: Callable[[], float]
    has_batch: bool = True


class BitPolicy(Protocol):
    """The settings of a bit policy: a frozen dataclass. Ranks compare its repr, so it includes every setting."""

    @property
    def choices(self) -> Sequence[int]:
        """The allowed bits, ascending."""
        ...

    def start(self) -> BitChooser:
        """Return a chooser for the first step."""
        ...


class BitChooser(Protocol):
    """Chooses the bits on one rank. All ranks make the same choices, from numbers that they exchange."""

    @property
    def bits(self) -> int:
        """Bits of the next step."""
        ...

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        """Process a completed step. All ranks call it after each step.

        Parameters
        ----------
        observed : Observation
            The step.
        all_gather : AllGather
            Exchanges numbers between ranks.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state that later choices depend on, as arrays and numbers."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; raise DataError if it is from a policy with other settings."""
        ...


@dataclass(frozen=True)
class FixedBits:
    """A bit policy with the same bits in every step.

    Parameters
    ----------
    bits : int
        Bits per value.

    Examples
    --------
    >>> from bitlane.compress import FixedBits
    >>> FixedBits(4).start().bits
    4
    """

    bits: int

    @property
    def choices(self) -> Sequence[int]:
        """The bits, as the only choice."""
        return (self.bits,)

    def start(self) -> FixedBits:
        """Return the policy itself: it has no state."""
        return self

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        """Do nothing: the bits are fixed."""

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: the policy has no state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing: the policy has no state."""
