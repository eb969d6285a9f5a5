"""Proof of the guard of an HP port: a reset in any cycle never mixes the bursts before it with those after it."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.zynq.axi3 import hp_signature
from bitlane_hw.zynq.port_guard import COUNT_BITS, PortGuard

from .harness import ProofHarness, implies, same
from .proof import Proof
from .protocol import channel, offered, write_order

MOST_OPEN = (1 << COUNT_BITS) - 1  # reads, and writes, without an answer
ADDRESSES = (("aw", ("addr", "len")), ("ar", ("id", "addr", "len")))


class ResettableGuard(wiring.Component):  # type: ignore[misc]
    """A guard, by default a `PortGuard`, with its reset as an input."""

    def __init__(self, guard: PortGuard | None = None) -> None:
        self._guard = guard or PortGuard()
        super().__init__({"logic": In(hp_signature()), "hp": Out(hp_signature()), "others_idle": In(1), "rst": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Connect the guard."""
        m = Module()
        guard = self._guard
        m.submodules.guard = ResetInserter(self.rst)(guard)
        connect(m, flipped(self.logic), guard.logic)
        connect(m, guard.hp, flipped(self.hp))
        m.d.comb += guard.others_idle.eq(self.others_idle)
        return m


def port_guard(harness: ProofHarness) -> None:
    """The port gets complete bursts, with the data of their own run only; the logic gets the answers of its own run.

    The reset is free: it may come in any cycle, for any time; so is the state of the other ports. Assumed of the logic:
    it offers nothing in the cycle after a reset, and between resets it follows the rules of `write_order`. Assumed of
    the port: it answers what was requested and nothing else.
    """
    block, inside = harness.block, harness.inside["guard"]
    logic, hp, rst = block.logic, block.hp, block.rst
    after_reset = harness.past(rst)
    state, rules = write_order(harness, logic, clear=rst)
    harness.assume(
        implies(after_reset, ~(logic.awvalid | logic.wvalid | logic.arvalid)),
        *(
            offered(harness, *channel(logic, prefix, *names)) | after_reset
            for prefix, names in (*ADDRESSES, ("w", ("data", "strb", "last")))
        ),
        implies(logic.wvalid, logic.wstrb.all()),
        *rules,
    )
    asked, written = hp.awvalid & hp.awready, hp.wvalid & hp.wready
    read_ended, answered = hp.rvalid & hp.rready & hp.rlast, hp.bvalid & hp.bready
    reads = harness.count(hp.arvalid & hp.arready, read_ended)
    ahead = harness.count(asked, written & hp.wlast, bits=2).as_signed()
    balance = harness.count(Mux(asked, hp.awlen + 1, 0), written, bits=8)
    complete = harness.count(
        Mux(ahead == 1, written & hp.wlast, Mux(ahead == -1, asked, asked & written & hp.wlast)), answered
    )
    harness.assume(
        implies(hp.rvalid, reads != 0),
        implies(hp.bvalid, complete != 0),
        (reads < MOST_OPEN) & (complete < MOST_OPEN),
    )

    in_reset, ending, held, owed = inside["in_reset"], inside["ending"], inside["offered"], inside["owed"]
    fresh = harness.ghost(1, "fresh")  # an address was taken since the reset
    with harness.m.If(rst):
        harness.m.d.sync += fresh.eq(0)
    with harness.m.Elif(logic.awvalid & logic.awready):
        harness.m.d.sync += fresh.eq(1)
    logic_reads = harness.count(logic.arvalid & logic.arready, logic.rvalid & logic.rready & logic.rlast, clear=rst)
    harness.always(
        # the port: complete bursts, that stay until they are taken, with data of the same run or with none
        *(
            offered(harness, *channel(hp, prefix, *names)) | after_reset
            for prefix, names in (*ADDRESSES, ("w", ("strb", "last")))
        ),
        offered(harness, hp.wvalid, hp.wready, Mux(hp.wstrb.any(), hp.wdata, 0)) | after_reset,
        implies(after_reset, ~(hp.awvalid | hp.wvalid | hp.arvalid)),
        implies(hp.wvalid, (owed != 0) & (hp.wlast == (owed == 1))),
        ahead == Mux(held, Mux(owed == 0, -1, 0), owed != 0),
        balance.as_signed() == owed - Mux(held, inside["length"] + 1, 0),
        implies(hp.wvalid, hp.wstrb == Mux(fresh, (1 << len(hp.wstrb)) - 1, 0)) | rst | after_reset,
        implies(hp.wvalid & hp.wstrb.any(), fresh & same(hp.wdata, logic.wdata) & logic.wvalid),
        # no valid signal waits for a ready signal of its burst
        implies(held & ~in_reset, hp.awvalid),
        implies((owed != 0) & ~in_reset & (ending | logic.wvalid), hp.wvalid),
        implies(ending, hp.rready & hp.bready),
        # a port that opens waits for the others
        implies(harness.past(ending & ~block.others_idle, init=0), ending),
        # the logic: only answers to what it has requested since the reset
        implies(logic.rvalid, logic_reads != 0),
        implies(logic.bvalid, state.complete != 0),
        # invariants
        owed <= BURST_BEATS,
        implies(held, owed <= inside["length"] + 1),
        in_reset == harness.past(rst, init=1),
        implies(in_reset, ending),
        implies(fresh, ~ending),
        implies(ending, (logic_reads == 0) & (state.ahead == 0) & (state.balance == 0) & (state.complete == 0)),
        implies(~ending, logic_reads == reads),
        implies(~ending, state.ahead == (owed != 0)),
        implies(~ending, state.balance == owed),
        implies(~ending & ~fresh, (owed == 0) & ~held),
        implies(~ending, state.complete == (complete + (held & (owed == 0)))[:16]),
        (inside["reads"] + inside["reads_begun"] - inside["reads_ended"])[:COUNT_BITS] == reads[:COUNT_BITS],
        (inside["writes"] + inside["writes_begun"] - inside["writes_ended"])[:COUNT_BITS]
        == (complete + (ahead == 1))[:COUNT_BITS],
        (reads <= MOST_OPEN) & (complete <= MOST_OPEN),
    )
    cut_off = harness.ever(rst & (owed == 2) & ~held)
    harness.cover(cut_off & hp.wvalid & hp.wready & ~hp.wstrb.any() & hp.wlast)
    harness.cover(cut_off & ~rst & hp.wvalid & hp.wstrb.all())
    harness.cover(harness.ever(rst & held & (owed == 1)) & hp.awvalid & ~fresh)
    harness.cover(harness.ever(rst & (reads == 2)) & ~ending & hp.arvalid)


PROOFS = (
    Proof(
        "port_guard",
        "a reset in any cycle: complete bursts at the HP port, no data and no answer of another run",
        ResettableGuard,
        port_guard,
        20,
        powered_up=True,  # its counts have no reset: they begin with the configuration, and outlive every reset
    ),
)
