"""The beats of the regions on their way to the write port."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.layout import BURST_BEATS, WORD_BITS

from .source_reader import line_bits

DEPTH = 512  # beats of a region: one RAMB36E1 for each word of a beat
RESERVE = 64  # beats that may arrive after `room` has fallen


class RegionBuffer(wiring.Component):
    """Collect the beats of each region, and write them in bursts of 16, the last one shorter.

    The regions take turns: after a burst the next region that has one goes on.

    Latency: a burst is requested two cycles after its last beat arrived. Throughput: one burst at a time, as many beats
    a cycle as the writer takes. Backpressure: `room` falls before a FIFO is full.

    Parameters
    ----------
    address_bits : int
        Width of an address.
    regions : int
        Number of regions.
    request_layout : Shape
        As in the writer.
    width : int, default=64
        Bits of a beat.

    Members
    -------
    load : 1 bit, in
        Take the addresses.
    addresses : array of address_bits, in
        Address of each region, a multiple of a burst.
    words : array of streams of beats, in, always ready
        Beats of each region, in order.
    flush : 1 bit, in
        No more beats come: write what is left.
    room : 1 bit, out
        Each FIFO has room for `RESERVE` beats.
    empty : 1 bit, out
        All beats have left.
    requests : stream of request_layout, out
        Requests to the writer.
    beats : stream of beats, out, always valid
        Beats of the burst that was requested last.
    """

    def __init__(self, address_bits: int, regions: int, request_layout, width: int = WORD_BITS):
        self._width = width
        super().__init__(
            {
                "load": In(1),
                "addresses": In(address_bits).array(regions),
                "words": In(stream.Signature(width, always_ready=True)).array(regions),
                "flush": In(1),
                "room": Out(1),
                "empty": Out(1),
                "requests": Out(stream.Signature(request_layout)),
                "beats": Out(stream.Signature(width, always_valid=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        request = self.requests.payload
        regions = range(len(self.words))
        turn = Signal(regions)
        active = Signal(regions)
        inside = line_bits(self._width)
        left = Signal(range(BURST_BEATS + 1))  # beats of the burst that was requested last
        lines = Array(Signal(len(self.addresses[0]) - inside, name=f"line_{i}") for i in regions)
        buffers = [fifo.SyncFIFOBuffered(width=self._width, depth=DEPTH) for _ in regions]
        for i, buffer in enumerate(buffers):
            m.submodules[f"region_{i}"] = buffer
            m.d.comb += [
                buffer.w_stream.valid.eq(self.words[i].valid),
                buffer.w_stream.payload.eq(self.words[i].payload),
                buffer.r_stream.ready.eq(self.beats.ready & (active == i)),
            ]
        level = Array(buffer.level for buffer in buffers)[turn]
        full = level >= BURST_BEATS
        wanted = full | (self.flush & level.any())  # of the burst under way it counts beats, too
        m.d.comb += [
            self.requests.valid.eq((left == 0) & wanted),
            request.address.eq(Cat(Const(0, inside), lines[turn])),
            request.beats.eq(Mux(full, BURST_BEATS, level)),
            self.beats.payload.eq(Array(buffer.r_stream.payload for buffer in buffers)[active]),
            self.empty.eq((left == 0) & ~Cat(buffer.level.any() for buffer in buffers).any()),
        ]
        m.d.sync += self.room.eq(~Cat(buffer.level > DEPTH - 2 * RESERVE for buffer in buffers).any())
        with m.If(self.beats.ready):
            m.d.sync += left.eq(left - 1)
        with m.If(self.requests.valid & self.requests.ready):
            m.d.sync += [active.eq(turn), left.eq(request.beats), lines[turn].eq(lines[turn] + 1)]
        with m.If(~wanted | (self.requests.valid & self.requests.ready)):
            m.d.sync += turn.eq(Mux(turn == regions[-1], 0, turn + 1))
        with m.If(self.load):
            m.d.sync += [line.eq(address[inside:]) for line, address in zip(lines, self.addresses, strict=True)]
        return m
