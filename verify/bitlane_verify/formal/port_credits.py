"""Proofs of the credits of several ports: no take meets an empty FIFO."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import PORT_CROSSING
from bitlane_hw.memory.port_credits import PortCredits

from .harness import ProofHarness, implies
from .proof import PORTED, Proof
from .read_path import fifo_level

STREAMS = 2


class CreditedFifos(wiring.Component):  # type: ignore[misc]
    """The FIFOs of all ports as in the readers, behind `PortCredits`.

    Members
    -------
    put : array of ports arrays of 2 bits, in
        Put a beat into the FIFO of a port and a stream.
    take : 2 bits, in
        Take a beat of a stream from all ports, if all have one.
    room, offered, taken : array of ports arrays of 2 bits, out
        A FIFO has room; it offers a beat; a take has arrived at it.
    valid : 2 bits, out
        A beat can be taken.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        each = data.ArrayLayout(STREAMS, config.ports)
        outs = dict.fromkeys(("room", "offered", "taken"), Out(each))
        super().__init__({"put": In(each), "take": In(STREAMS), "valid": Out(STREAMS), **outs})

    def elaborate(self, platform: object) -> Module:
        """Connect the FIFOs to the credits."""
        m = Module()
        m.submodules.credits = credits = PortCredits(self._config)
        m.d.comb += [
            credits.arrived.eq(self.put),
            self.valid.eq(Cat(beats.valid for beats in credits.beats)),
            *(beats.ready.eq(self.take[i] & beats.valid) for i, beats in enumerate(credits.beats)),
        ]
        for port, parts in enumerate(credits.parts):
            for i, part in enumerate(parts):
                buffer = fifo.SyncFIFOBuffered(width=self._config.port_width, depth=self._config.fifo_beats)
                m.submodules[f"fifo_{port}_{i}"] = buffer
                wiring.connect(m, buffer.r_stream, part)
                m.d.comb += [
                    buffer.w_en.eq(self.put[port][i]),
                    self.room[port][i].eq(buffer.w_rdy),
                    self.offered[port][i].eq(part.valid),
                    self.taken[port][i].eq(part.ready),
                ]
        return m


def credited(harness: ProofHarness) -> None:
    """A FIFO offers a beat whenever a take arrives; all beats that are there and not taken have a credit, or will."""
    block, inside = harness.block, harness.inside
    credits = inside["credits"]
    harness.assume(implies(block.take[0], ~block.take[1]))
    for port in range(PORTED.ports):
        for i in range(STREAMS):
            level = fifo_level(harness, inside[f"fifo_{port}_{i}"])
            harness.assume(implies(block.put[port][i], block.room[port][i]))
            on_the_way: Any = sum(
                credits[f"{name}_{port}_{i}_{stage + 1}"]
                for name in ("arrived", "take")
                for stage in range(PORT_CROSSING)
            )
            harness.always(
                implies(block.taken[port][i], block.offered[port][i]),
                # invariant
                level == credits[f"credit_{port}_{i}"] + on_the_way,
            )
    harness.cover(block.taken[0][0] & block.taken[1][0] & (credits["credit_0_0"] == 2))
    harness.cover(~block.valid[0] & (credits["credit_0_0"] == 3))  # the other port is slower


PROOFS = (
    Proof(
        "port_credits",
        "several ports: a take never meets an empty FIFO, and every beat that is there can be taken",
        lambda: CreditedFifos(PORTED),
        credited,
        covers=20,
    ),
)
