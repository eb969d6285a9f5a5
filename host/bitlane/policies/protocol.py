"""How many bits a value is given, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

AllGather = Callable[[Sequence[float]], Sequence[Sequence[float]]]  # own numbers to all ranks; every rank's, in order


@dataclass(frozen=True)
class Observation:
    """What a rank saw of a step that is over.

    Attributes
    ----------
    loss: mean of the rank's own batch; None where nobody told it.
    seconds: that the step took, from end to end.
    rms: computes the root mean square of the average that all ranks applied, for those that ask.
    """

    loss: float | None
    seconds: float
    rms: Callable[[], float]


class BitPolicy(Protocol):
    """Settings of a policy, as a frozen dataclass whose repr says them all; `start` makes what a rank goes by."""

    @property
    def choices(self) -> Sequence[int]:
        """The bits among which it chooses, ascending."""
        ...

    def start(self) -> BitChooser:
        """A chooser at its first step."""
        ...


class BitChooser(Protocol):
    """What chooses. Every rank's makes the same choices, from numbers that all ranks have exchanged."""

    @property
    def bits(self) -> int:
        """Of the next step."""
        ...

    def after(self, observed: Observation, share: AllGather) -> None:
        """Take in a step. Every rank calls it after the same steps; `share` sends 8 bytes a number to every other."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that later choices depend on, as arrays and numbers; copies."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave; DataError where it is not of a policy with these settings."""
        ...


@dataclass(frozen=True)
class FixedBits:
    """The same bits in every step."""

    bits: int

    @property
    def choices(self) -> Sequence[int]:
        return (self.bits,)

    def start(self) -> FixedBits:
        return self

    def after(self, observed: Observation, share: AllGather) -> None:
        """Nothing follows from it."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is nothing to go on from."""
