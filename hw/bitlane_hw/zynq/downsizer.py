"""Width converters from twice the width of a port to the port: read bursts and write beats."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .hp_port import ZYNQ_7000, HpPort, write_layout

PAGE_BITS = 12  # no burst crosses a 4 KiB boundary
BURST = data.StructLayout({"id": 1, "len": 4})  # `len` + 1 wide beats


class BurstDownsizer(wiring.Component):
    """Split a read burst of L wide beats into two bursts of words.

    A beat has two words. The bursts have 2 * ceil(L / 2) and 2 * floor(L / 2) words. The second burst starts where the
    first one ends; a burst of one beat has no second half. Each half has at most 16 words. A half that was taken is not
    offered again while the other half waits.

    Latency: none. Throughput: one burst a cycle. Backpressure: a burst is taken when all its halves are.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    bursts : stream of `HpPort.tagged_address`, in
        Bursts of wide beats within a 4 KiB page.
    first : stream of `HpPort.address`, out
        First halves.
    second : stream of `HpPort.address`, out
        Second halves.
    order : stream of BURST, out
        The bursts whose beats will return, in order.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        self._word_bytes = port.word_bytes
        super().__init__(
            {
                "bursts": In(stream.Signature(port.tagged_address)),
                "first": Out(stream.Signature(port.address)),
                "second": Out(stream.Signature(port.address)),
                "order": Out(stream.Signature(BURST)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        burst = self.bursts.payload
        outputs = (self.first, self.second, self.order)
        taken = Signal(len(outputs))
        first_beats = (burst.len >> 1) + 1
        page, offset = burst.addr[PAGE_BITS:], burst.addr[:PAGE_BITS]
        m.d.comb += [
            self.first.payload.addr.eq(burst.addr),
            self.first.payload.len.eq(burst.len | 1),
            self.second.payload.addr.eq(Cat((offset + first_beats * (2 * self._word_bytes))[:PAGE_BITS], page)),
            self.second.payload.len.eq((burst.len - 1) | 1),
            self.order.payload.id.eq(burst.id),
            self.order.payload.len.eq(burst.len),
        ]
        needed = (1, burst.len.any(), 1)
        done = Signal(len(outputs))
        for i, (output, need) in enumerate(zip(outputs, needed, strict=True)):
            m.d.comb += [output.valid.eq(self.bursts.valid & need & ~taken[i]), done[i].eq(output.ready | ~need)]
        m.d.comb += self.bursts.ready.eq((taken | done).all())
        with m.If(self.bursts.valid):
            m.d.sync += taken.eq(Mux(self.bursts.ready, 0, taken | done))
        return m


class BeatDownsizer(wiring.Component):
    """Split a wide beat into two words, the low word first.

    Latency: none. Throughput: one beat in two cycles. Backpressure: a beat is taken with its high word.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    beats : stream of write_layout of twice the width of the port, in
        Wide beats.
    words : stream of write_layout, out
        Their words.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        self._port = port
        super().__init__(
            {
                "beats": In(stream.Signature(write_layout(2 * port.data_bits))),
                "words": Out(stream.Signature(write_layout(port.data_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat, word = self.beats.payload, self.words.payload
        high = Signal()
        m.d.comb += [
            self.words.valid.eq(self.beats.valid),
            self.beats.ready.eq(self.words.ready & high),
            word.data.eq(beat.data.word_select(high, self._port.data_bits)),
            word.strb.eq(beat.strb.word_select(high, self._port.word_bytes)),
            word.last.eq(beat.last & high),
        ]
        with m.If(self.words.valid & self.words.ready):
            m.d.sync += high.eq(~high)
        return m
