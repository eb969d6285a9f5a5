"""Proof that every run begins like the first one after a reset: what `clear` does to the engine."""

from __future__ import annotations

from dataclasses import replace

from amaranth.hdl import Const

from bitlane_hw.accelerator import Accelerator

from .harness import ProofHarness, implies, same
from .proof import CONFIG, Proof

SMALL = replace(CONFIG, outputs=1)
BLOCKS = ("reader", "sequencer", "row_buffer", "schedule", "loader", "storer", "writer")


def accelerator(harness: ProofHarness) -> None:
    """One cycle after `clear` the registers that have a reset have their initial values, whatever came before.

    Of the model core only the flags, registers of one bit: the others would bring all arithmetic into the proof. The
    base cases of the other proofs begin with these registers at their initial values, and with anything in those
    without a reset and in the memories. So what they prove holds for every run.
    """
    control = harness.inside["control"].component
    cleared = harness.past(control.clear)
    engine = harness.inside["engine"]
    flags = [register for register in engine["core_0"].registers if len(register) == 1]
    blocks = (engine[name] for name in BLOCKS)
    registers = [*flags, *(register for block in blocks for register in block.registers)]
    with_reset = [register for register in registers if not register.reset_less]
    harness.always(*(implies(cleared, same(register, Const(register.init, len(register)))) for register in with_reset))
    harness.cover(cleared)


PROOFS = (
    Proof(
        "accelerator",
        "a start sets the registers of the engine's blocks, and the flags of its core, to their initial values",
        lambda: Accelerator(SMALL, 0),
        accelerator,
        covers=8,
    ),
)
