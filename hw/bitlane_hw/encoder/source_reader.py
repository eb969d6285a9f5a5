"""The read bursts of a source region."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.encoding import region_bytes
from bitlane.contract.layout import BURST_BEATS, WORD_BITS
from bitlane_hw.memory.axi import INCR, OKAY, AXI4Read, full_size

LINES_BITS = 32  # of the number of bursts


def line_bits(width: int) -> int:
    """Return the address bits inside a burst of 16 beats of `width` bits."""
    return (region_bytes(width // 8) - 1).bit_length()


class SourceReader(wiring.Component):
    """Read consecutive bursts of 16 beats into a FIFO, as early as it has room.

    The address is a multiple of a burst, so that no burst crosses a 4 KiB boundary. Data is always accepted. A beat
    that arrives while no burst is outstanding is dropped: it answers a burst from before a reset.

    Throughput: one beat a cycle as long as the latency of the memory is below `fifo_beats - 32` cycles. Backpressure:
    beats that are not taken stop the requests.

    Parameters
    ----------
    address_bits : int
        Width of an address.
    fifo_beats : int
        Size of the FIFO, a multiple of 16.
    width : int, default=64
        Bits of a beat.

    Members
    -------
    load : 1 bit, in
        Take address and number of bursts.
    enable : 1 bit, in
        Request bursts.
    address : address_bits, in
        Address of the region, a multiple of a burst.
    lines : 32 bits, in
        Number of bursts.
    beats : stream of beats, out
        The beats.
    accepted : 1 bit, out
        A beat was accepted.
    exhausted : 1 bit, out
        All bursts were read and all beats taken.
    response : 2 bits, out
        The last response that was not OKAY; OKAY if there was none.
    idle : 1 bit, out
        No burst is requested or outstanding.
    axi : AXI4Read, out
        Read channels of the memory port.
    """

    def __init__(self, address_bits: int, fifo_beats: int, width: int = WORD_BITS):
        self._depth, self._width = fifo_beats, width
        super().__init__(
            {
                "load": In(1),
                "enable": In(1),
                "address": In(address_bits),
                "lines": In(LINES_BITS),
                "beats": Out(stream.Signature(width)),
                "accepted": Out(1),
                "exhausted": Out(1),
                "response": Out(2),
                "idle": Out(1),
                "axi": Out(AXI4Read(address_bits, width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi, inside = self.axi, line_bits(self._width)
        m.submodules.fifo = buffer = fifo.SyncFIFOBuffered(width=self._width, depth=self._depth)
        connect(m, buffer.r_stream, flipped(self.beats))
        line = Signal(len(self.address) - inside)
        lines_left = Signal(LINES_BITS)
        room = Signal(range(self._depth + 1), init=self._depth)
        outstanding = Signal(range(self._depth // BURST_BEATS + 1))
        request = Signal()
        arrives = Signal()
        asked = axi.arvalid & axi.arready
        m.d.comb += [
            request.eq(self.enable & (lines_left != 0) & (room >= BURST_BEATS) & (~axi.arvalid | axi.arready)),
            arrives.eq(axi.rvalid & (outstanding != 0)),
            self.accepted.eq(arrives),
            self.idle.eq(~axi.arvalid & (outstanding == 0)),
            self.exhausted.eq((lines_left == 0) & (room == self._depth)),
            axi.arlen.eq(BURST_BEATS - 1),
            axi.arsize.eq(full_size(self._width)),
            axi.arburst.eq(INCR),
            axi.rready.eq(1),
            buffer.w_stream.valid.eq(arrives),
            buffer.w_stream.payload.eq(axi.rdata),
        ]
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(request):
            m.d.sync += [
                axi.arvalid.eq(1),
                axi.araddr.eq(Cat(Const(0, inside), line)),
                line.eq(line + 1),
                lines_left.eq(lines_left - 1),
            ]
        with m.If(self.load):
            m.d.sync += [line.eq(self.address[inside:]), lines_left.eq(self.lines)]
        taken = self.beats.valid & self.beats.ready
        m.d.sync += room.eq(room + taken - (request << (BURST_BEATS - 1).bit_length()))
        m.d.sync += outstanding.eq(outstanding + asked - (arrives & axi.rlast))
        with m.If(arrives & (axi.rresp != OKAY)):
            m.d.sync += self.response.eq(axi.rresp)
        return m
