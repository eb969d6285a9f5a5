"""Registers on AXI4-Lite for a master that speaks AXI3: M_AXI_GP0 of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.memory.axi import INCR, AXI4Lite

from .axi3 import FIXED, gp_signature


class BeatAddress(wiring.Component):
    """The word in which each beat of a burst of at most 16 beats lies (Arm IHI 0022, section A3.4.1).

    Members
    -------
    start: In(1), takes `addr`, `len`, `size` and `burst` of an address channel.
    step: In(1), on to the next beat.
    word: Out, its address. last: Out(1), the beat is the burst's last one.
    """

    def __init__(self):
        super().__init__(
            {
                "start": In(1),
                "addr": In(ADDRESS_BITS),
                "len": In(4),
                "size": In(2),
                "burst": In(2),
                "step": In(1),
                "word": Out(ADDRESS_BITS),
                "last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        place = Signal(ADDRESS_BITS)
        moving = Signal(ADDRESS_BITS)  # the bits of it that beats change
        beat_bytes = Signal(range(1 << 3 + 1))
        left = Signal(4)
        stepped = place + beat_bytes
        m.d.comb += [self.word.eq(Cat(Const(0, 2), place[2:])), self.last.eq(left == 0)]
        with m.If(self.start):
            m.d.sync += [
                place.eq(self.addr),
                beat_bytes.eq(1 << self.size),
                left.eq(self.len),
                moving.eq(self.len << self.size),  # WRAP: aligned, and within as many bytes as the burst has
            ]
            with m.If(self.burst == FIXED):
                m.d.sync += moving.eq(0)
            with m.If(self.burst == INCR):
                m.d.sync += moving.eq(~0)
        with m.Elif(self.step):
            m.d.sync += [place.eq((place & ~moving) | (stepped & moving)), left.eq(left - 1)]
        return m


class RegisterPort(wiring.Component):
    """Does the bursts of an AXI3 master beat by beat on AXI4-Lite: one read and one write at a time.

    Bursts of 1 to 16 beats, FIXED, INCR or WRAP, of any size, in the window of the registers (the upper address bits
    are ignored), which repeats. Data follows its address: a slave that takes one burst at a time never sees data of two
    bursts mixed, and `wid` need not be looked at. A response has its address's ID; that of a write is the worst of
    its beats'. Exclusive accesses are answered as plain ones. Reads and writes do not wait for each other.

    A beat takes 3 cycles with a slave that answers in the next cycle, and a burst one more for its address (a write
    also one for its answer); every output comes out of a flip-flop, or is decoded from a state.

    Members
    -------
    gp: In, AXI3 with 32-bit data and 12-bit IDs.
    lite: Out, AXI4Lite.
    """

    def __init__(self):
        super().__init__({"gp": In(gp_signature()), "lite": Out(AXI4Lite(ADDRESS_BITS))})

    def elaborate(self, platform):
        m = Module()
        self._read(m)
        self._write(m)
        return m

    def _begin(self, m, prefix, beat):
        """Takes an address when there is one; true in that cycle."""
        channel = {name: getattr(self.gp, prefix + name) for name in ("addr", "len", "size", "burst", "valid", "ready")}
        m.d.comb += [channel["ready"].eq(1), beat.start.eq(channel["valid"])]
        m.d.comb += [getattr(beat, name).eq(channel[name]) for name in ("addr", "len", "size", "burst")]
        return m.If(channel["valid"])

    def _read(self, m):
        gp, lite = self.gp, self.lite
        m.submodules.read_beat = beat = BeatAddress()
        m.d.comb += [lite.araddr.eq(beat.word), gp.rlast.eq(beat.last)]
        with m.FSM(name="reads"):
            with m.State("IDLE"), self._begin(m, "ar", beat):
                m.d.sync += gp.rid.eq(gp.arid)
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += lite.arvalid.eq(1)
                with m.If(lite.arready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += lite.rready.eq(1)
                with m.If(lite.rvalid):
                    m.d.sync += [gp.rdata.eq(lite.rdata), gp.rresp.eq(lite.rresp)]
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += gp.rvalid.eq(1)
                with m.If(gp.rready):
                    m.d.comb += beat.step.eq(1)
                    m.next = "ASK"
                    with m.If(beat.last):
                        m.next = "IDLE"

    def _write(self, m):
        gp, lite = self.gp, self.lite
        m.submodules.write_beat = beat = BeatAddress()
        m.d.comb += lite.awaddr.eq(beat.word)
        with m.If(lite.awready):
            m.d.sync += lite.awvalid.eq(0)
        with m.If(lite.wready):
            m.d.sync += lite.wvalid.eq(0)
        with m.FSM(name="writes"):
            with m.State("IDLE"), self._begin(m, "aw", beat):
                m.d.sync += [gp.bid.eq(gp.awid), gp.bresp.eq(0)]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += gp.wready.eq(1)
                with m.If(gp.wvalid):
                    m.d.sync += [
                        lite.wdata.eq(gp.wdata),
                        lite.wstrb.eq(gp.wstrb),
                        lite.wvalid.eq(1),
                        lite.awvalid.eq(1),
                    ]
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += lite.bready.eq(1)
                with m.If(lite.bvalid):
                    m.d.comb += beat.step.eq(1)
                    m.d.sync += gp.bresp.eq(Mux(gp.bresp > lite.bresp, gp.bresp, lite.bresp))
                    m.next = "TAKE"
                    with m.If(beat.last):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += gp.bvalid.eq(1)
                with m.If(gp.bready):
                    m.next = "IDLE"
