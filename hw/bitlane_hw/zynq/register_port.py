"""An AXI4-Lite master for the registers, driven by an AXI3 master: M_AXI_GP0 of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.memory.axi import INCR, AXI4Lite

from .axi3 import FIXED, gp_signature


class BeatAddress(wiring.Component):
    """Compute the word address of each beat of a burst of at most 16 beats (Arm IHI 0022, section A3.4.1).

    Latency: the first address is valid one cycle after `start`, the next one cycle after `step`.

    Members
    -------
    start : 1 bit, in
        Take `addr`, `len`, `size` and `burst`.
    addr : unsigned, in
        AxADDR.
    len : 4 bits, in
        AxLEN.
    size : 2 bits, in
        AxSIZE.
    burst : 2 bits, in
        AxBURST.
    step : 1 bit, in
        Go on to the next beat.
    word : unsigned, out
        Byte address of the word that contains the beat.
    last : 1 bit, out
        The beat is the last one of the burst.
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
        beat_address = Signal(ADDRESS_BITS)
        changing_bits = Signal(ADDRESS_BITS)  # address bits that change from beat to beat
        beat_bytes = Signal(range(1 << 3 + 1))
        left = Signal(4)
        stepped = beat_address + beat_bytes
        m.d.comb += [self.word.eq(Cat(Const(0, 2), beat_address[2:])), self.last.eq(left == 0)]
        with m.If(self.start):
            m.d.sync += [
                beat_address.eq(self.addr),
                beat_bytes.eq(1 << self.size),
                left.eq(self.len),
                changing_bits.eq(self.len << self.size),  # WRAP: the burst stays within its own size, aligned
            ]
            with m.If(self.burst == FIXED):
                m.d.sync += changing_bits.eq(0)
            with m.If(self.burst == INCR):
                m.d.sync += changing_bits.eq(~0)
        with m.Elif(self.step):
            m.d.sync += [
                beat_address.eq((beat_address & ~changing_bits) | (stepped & changing_bits)),
                left.eq(left - 1),
            ]
        return m


class RegisterPort(wiring.Component):
    """Execute the bursts of an AXI3 master beat by beat on AXI4-Lite, one read and one write at a time.

    Bursts have 1 to 16 beats of any size and are FIXED, INCR or WRAP. The window of the registers repeats: upper
    address bits are ignored. Write data is accepted after its address, and only one burst is accepted at a time, so
    that data of two bursts cannot mix and `wid` is not used. A response has the ID of its address; the response to a
    write is the worst of its beats. Exclusive accesses are executed as normal ones. Reads and writes do not wait for
    each other.

    Latency: 3 cycles a beat if the slave answers in the next cycle, plus one cycle a burst for the address and, for
    writes, one for the response. Throughput: one beat in 3 cycles. Backpressure: a burst waits until the previous one
    of the same direction is complete. Every output is a flip-flop or is decoded from a state.

    Members
    -------
    gp : AXI3 with 32-bit data and 12-bit IDs, in
        The AXI3 slave port.
    lite : AXI4Lite, out
        The AXI4-Lite master port.
    """

    def __init__(self):
        super().__init__({"gp": In(gp_signature()), "lite": Out(AXI4Lite(ADDRESS_BITS))})

    def elaborate(self, platform):
        m = Module()
        self._read(m)
        self._write(m)
        return m

    def _accept_address(self, m, prefix, beat):
        """Accept an address if there is one; open a branch for that cycle."""
        channel = {name: getattr(self.gp, prefix + name) for name in ("addr", "len", "size", "burst", "valid", "ready")}
        m.d.comb += [channel["ready"].eq(1), beat.start.eq(channel["valid"])]
        m.d.comb += [getattr(beat, name).eq(channel[name]) for name in ("addr", "len", "size", "burst")]
        return m.If(channel["valid"])

    def _read(self, m):
        gp, lite = self.gp, self.lite
        m.submodules.read_beat = beat = BeatAddress()
        m.d.comb += [lite.araddr.eq(beat.word), gp.rlast.eq(beat.last)]
        with m.FSM(name="reads"):
            with m.State("IDLE"), self._accept_address(m, "ar", beat):
                m.d.sync += gp.rid.eq(gp.arid)
                m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += lite.arvalid.eq(1)
                with m.If(lite.arready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += lite.rready.eq(1)
                with m.If(lite.rvalid):
                    m.d.sync += [gp.rdata.eq(lite.rdata), gp.rresp.eq(lite.rresp)]
                    m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += gp.rvalid.eq(1)
                with m.If(gp.rready):
                    m.d.comb += beat.step.eq(1)
                    m.next = "REQUEST"
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
            with m.State("IDLE"), self._accept_address(m, "aw", beat):
                m.d.sync += [gp.bid.eq(gp.awid), gp.bresp.eq(0)]
                m.next = "DATA"
            with m.State("DATA"):
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
                    m.next = "DATA"
                    with m.If(beat.last):
                        m.next = "RESPOND"
            with m.State("RESPOND"):
                m.d.comb += gp.bvalid.eq(1)
                with m.If(gp.bready):
                    m.next = "IDLE"
