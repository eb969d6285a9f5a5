"""A high-performance port that outlives a reset of the logic: bursts under way are ended before new ones begin."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.layout import BURST_BEATS

from .hp_port import ZYNQ_7000, HpPort

COUNT_BITS = 12  # of the bursts without an answer: the reader has at most twice its FIFO's beats, an HP port takes 16


class PortGuard(wiring.Component):
    """Connect the logic to an HP port, and end the bursts of the logic that a reset has cut off.

    A reset of the logic does not reset the HP port: the port still waits for the rest of a write burst, and still
    answers the reads. Without a guard it would take the first data of the next run for the rest of the old burst and
    write it to the old address. The registers of this block keep their values in a reset. After the reset it

    1. offers the address that was not taken, and the words that are missing, with WSTRB = 0 and any data, so that they
       change nothing;
    2. drops the answers to all bursts from before the reset;
    3. lets new addresses and data pass only when every burst is answered, at the other ports of the logic too:
       otherwise one port could read what another has still to write.

    A loaded bitstream sets all registers to their initial values, so it forgets the bursts too. Therefore the driver
    ends a run before it loads an overlay (`bitlane.devices.pynq.earlier_run`).

    Latency: one cycle for AW, none for the other channels. Throughput: not limited, except that an address is taken
    when all words of the previous burst have left. Backpressure: passed on; words wait until their address is in the
    block, but not until the port has taken it.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    logic : AXI3 or AXI4, in
        The channels of the logic. Only one ID for writes, at most 4,095 reads and 4,095 writes without an answer.
    hp : AXI3 or AXI4, out
        The HP port.
    idle : 1 bit, out
        After a reset: every burst from before it is answered. It stays 1 until the port opens.
    others_idle : 1 bit, in
        The same of all other ports of the logic.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        signature = port.signature
        super().__init__({"logic": In(signature), "hp": Out(signature), "idle": Out(1), "others_idle": In(1)})

    def elaborate(self, platform):
        m = Module()
        logic, hp = self.logic, self.hp
        connect(m, flipped(logic), flipped(hp))  # what follows overrides it
        in_reset = Signal(init=1)
        ending = Signal(init=1)  # the bursts from before the reset
        offered = Signal(reset_less=True)  # an address is in the block
        address = Signal.like(logic.awaddr, reset_less=True)
        length = Signal.like(logic.awlen, reset_less=True)
        owed = Signal(range(BURST_BEATS + 1), reset_less=True)  # words that the port expects
        m.d.sync += in_reset.eq(0)
        read_idle = self._answered(m, "reads", hp.arvalid & hp.arready, hp.rvalid & hp.rready & hp.rlast)
        write_idle = self._answered(m, "writes", hp.awvalid & hp.awready, hp.bvalid & hp.bready)
        m.d.comb += self.idle.eq(~in_reset & ~offered & (owed == 0) & read_idle & write_idle)
        with m.If(self.idle & self.others_idle):
            m.d.sync += ending.eq(0)

        sent = hp.wvalid & hp.wready
        m.d.comb += [
            hp.awvalid.eq(offered & ~in_reset),
            hp.awaddr.eq(address),
            hp.awlen.eq(length),
            logic.awready.eq(~ending & ~offered & (owed == 0)),
            hp.arvalid.eq(logic.arvalid & ~ending),
            logic.arready.eq(hp.arready & ~ending),
            logic.rvalid.eq(hp.rvalid & ~ending),
            logic.bvalid.eq(hp.bvalid & ~ending),
            hp.rready.eq(logic.rready | ending),
            hp.bready.eq(logic.bready | ending),
            hp.wvalid.eq((owed != 0) & ~in_reset & (logic.wvalid | ending)),
            logic.wready.eq((owed != 0) & ~ending & hp.wready),
        ]
        with m.If(ending):
            m.d.comb += [hp.wstrb.eq(0), hp.wlast.eq(owed == 1)]
        with m.If(hp.awvalid & hp.awready):
            m.d.sync += offered.eq(0)
        with m.If(logic.awvalid & logic.awready):
            m.d.sync += [offered.eq(1), address.eq(logic.awaddr), length.eq(logic.awlen), owed.eq(logic.awlen + 1)]
        with m.Elif(sent):
            m.d.sync += owed.eq(owed - 1)
        return m

    def _answered(self, m, name, begun, ended):
        """Count the bursts without an answer, one cycle later; return 1 if there is none."""
        up, down = (Signal(name=f"{name}_{event}", reset_less=True) for event in ("begun", "ended"))
        count = Signal(COUNT_BITS, name=name, reset_less=True)
        m.d.sync += [up.eq(begun), down.eq(ended), count.eq(count + up - down)]
        return ~up & ~down & (count == 0)
