"""The description of a proof, and the configurations that the proofs use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bitlane.contract.config import AcceleratorConfig

from .harness import ProofHarness

# Small memories: the properties do not depend on their sizes, but the time of the proofs does.
CONFIG = AcceleratorConfig(outputs=2, max_features=128, row_buffer_beats=128, fifo_beats=64, address_bits=32)
TABLE = replace(CONFIG, outputs=1, level_slots=64)  # with table lanes
SHARDED = replace(CONFIG, width=128, shards=2)
PORTED = replace(SHARDED, ports=2)
FAIR = 4  # cycles within which a fair environment must react


@dataclass(frozen=True)
class Proof:
    """A block and the properties to prove of it.

    Attributes
    ----------
    name : str
        Name of the proof.
    shows : str
        The properties, in one line.
    make_block : callable
        Creates the block.
    properties : callable
        Adds the assumptions, assertions and covers to a harness that contains the block.
    covers : int
        Steps within which all covers must be reached.
    depth : int, default=2
        Steps of the base case, and of the assumed steps of the induction step.
    powered_up : bool, default=False
        The base case starts after the configuration of the chip, not after a reset: see `ProofHarness`.
    verilog : callable, optional
        Returns the Verilog of modules that the properties instantiate.
    """

    name: str
    shows: str
    make_block: Callable[[], Any]
    properties: Callable[[ProofHarness], None]
    covers: int
    depth: int = 2
    powered_up: bool = False
    verilog: Callable[[], str] | None = None

    def harness(self) -> ProofHarness:
        """Return a harness that contains the block and its properties.

        Raises
        ------
        ValueError
            The proof has no cover, so that nothing shows that its assumptions can be satisfied.
        """
        harness = ProofHarness(self.make_block(), self.powered_up)
        self.properties(harness)
        if not harness.covers:
            raise ValueError(f"proof {self.name!r} has no cover; add one, so that the proof is not vacuous")
        return harness
