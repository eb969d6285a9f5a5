"""What is proved, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bitlane_hw.config import AcceleratorConfig

from .bench import Bench

# Small memories: what is proved does not depend on their sizes, but the time that it takes does.
CONFIG = AcceleratorConfig(outputs=2, max_features=128, row_buffer_beats=128, fifo_beats=64, address_bits=32)


@dataclass(frozen=True)
class Proof:
    """A block and what is to be shown of it.

    Attributes
    ----------
    name: of the proof. shows: its properties, in words.
    build: makes the bench.
    depth: steps of the base case, and at most as many before the one of the induction step.
    covers: steps within which all of its covers are reached.
    bounded: no induction: shown for runs of `depth` steps only.
    """

    name: str
    shows: str
    build: Callable[[], Bench]
    depth: int
    covers: int
    bounded: bool = False

    @property
    def method(self) -> str:
        return "bounded" if self.bounded else "induction"
