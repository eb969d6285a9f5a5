"""Proofs of the credits of several ports: no take meets an empty FIFO."""

from __future__ import annotations

from typing import Any

from bitlane.contract.latencies import PORT_CROSSING
from bitlane_hw.memory.port_credits import PortCredits

from .harness import ProofHarness, implies
from .proof import PORTED, Proof

STREAMS = 2


def port_credits(harness: ProofHarness) -> None:
    """A FIFO offers a beat whenever a take arrives; all beats that are there and not taken have a credit, or will.

    Assumed: the FIFOs have room for what arrives, and offer a beat one cycle after it entered, as `fifo` shows; the
    sequencer takes valid beats, of one stream at a time.
    """
    block, inside = harness.block, harness.inside
    base, draw = block.beats
    harness.assume(*(implies(beats.ready, beats.valid) for beats in block.beats), ~(base.ready & draw.ready))
    for port, parts in enumerate(block.parts):
        for i, part in enumerate(parts):
            arrived = block.arrived[port][i]
            entered = harness.past(arrived)
            level = harness.count(arrived, part.ready, bits=8)  # beats in the FIFO
            harness.assume(implies(arrived, level < PORTED.fifo_beats))
            harness.assume(part.valid | (level == entered))
            on_the_way: Any = sum(
                inside[f"{name}_{port}_{i}_{stage + 1}"]
                for name in ("arrived", "take")
                for stage in range(PORT_CROSSING)
            )
            harness.always(
                implies(part.ready, part.valid & (level != 0)),
                # invariants
                level == inside[f"credit_{port}_{i}"] + on_the_way,
                level <= PORTED.fifo_beats,
                inside[f"arrived_{port}_{i}_1"] == entered,
            )
    harness.cover(block.parts[0][0].ready & block.parts[1][0].ready & (inside["credit_0_0"] == 2))
    harness.cover(~base.valid & (inside["credit_0_0"] == 3))  # the other port is slower


PROOFS = (
    Proof(
        "port_credits",
        "several ports: a take never meets an empty FIFO, and every beat that is there can be taken",
        lambda: PortCredits(PORTED),
        port_credits,
        covers=20,
    ),
)
