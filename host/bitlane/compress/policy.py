"""How many bits a value is given, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class BitPolicy(Protocol):
    """Settings of a policy, as a frozen dataclass whose repr says them all; `start` makes what a rank goes by."""

    def start(self) -> BitChooser:
        """A chooser at its first step."""
        ...


class BitChooser(Protocol):
    """What chooses. Every rank's makes the same choices, from numbers that all ranks have exchanged."""

    @property
    def bits(self) -> int:
        """Of the next step."""
        ...


@dataclass(frozen=True)
class FixedBits:
    """The same bits in every step."""

    bits: int

    def start(self) -> FixedBits:
        return self
