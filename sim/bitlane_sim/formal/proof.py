"""What is proved, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bitlane.contract.config import AcceleratorConfig

from .bench import ProofHarness

# Small memories: what is proved does not depend on their sizes, but the time that it takes does.
CONFIG = AcceleratorConfig(outputs=2, max_features=128, row_buffer_beats=128, fifo_beats=64, address_bits=32)
TABLE = replace(CONFIG, outputs=1, level_slots=64)  # of table lanes
FAIR = 4  # cycles within which a fair environment does what it must do once


@dataclass(frozen=True)
class Proof:
    """A block and what is to be shown of it.

    Attributes
    ----------
    name: of the proof. shows: its properties, in words.
    block: makes the block.
    properties: says to a bench with this block in it what is assumed, proved and covered.
    covers: steps within which all of its covers are reached.
    depth: steps of the base case, and at most as many before the one of the induction step.
    """

    name: str
    shows: str
    block: Callable[[], Any]
    properties: Callable[[ProofHarness], None]
    covers: int
    depth: int = 2

    def bench(self) -> ProofHarness:
        """The block on a bench, with its properties. Raises ValueError where nothing says that they are not vacuous."""
        bench = ProofHarness(self.block())
        self.properties(bench)
        if not bench.covers:
            raise ValueError(f"the proof {self.name} covers nothing")
        return bench
