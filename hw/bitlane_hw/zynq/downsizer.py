"""One wide burst as two narrow ones, and a wide beat as two words."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .axi3 import ADDRESS, HP_DATA_BITS, TAGGED_ADDRESS, write_layout

WORD_BYTES = HP_DATA_BITS // 8
PAGE_BITS = 12  # no burst crosses a multiple of 4 KiB
BURST = data.StructLayout({"id": 1, "len": 4})  # `len` + 1 wide beats, as in an address


class BurstDownsizer(wiring.Component):
    """A read of L beats of two words is two reads of words, side by side: 2 * ceil(L / 2) and 2 * floor(L / 2).

    The second half begins where the first ends; a burst of one beat has none. Each has 16 words at most. What has
    been taken of a burst is not offered again while the rest waits. Latency: none. Throughput: a burst a cycle.

    Members
    -------
    bursts: In, stream of `TAGGED_ADDRESS`, addresses of wide beats, within 4 KiB.
    first, second: Out, streams of `ADDRESS`, of the halves.
    order: Out, stream of `BURST`: what comes back, in this order.
    """

    def __init__(self):
        super().__init__(
            {
                "bursts": In(stream.Signature(TAGGED_ADDRESS)),
                "first": Out(stream.Signature(ADDRESS)),
                "second": Out(stream.Signature(ADDRESS)),
                "order": Out(stream.Signature(BURST)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        burst = self.bursts.payload
        outputs = (self.first, self.second, self.order)
        taken = Signal(len(outputs))
        first_beats = (burst.len >> 1) + 1
        page, place = burst.addr[PAGE_BITS:], burst.addr[:PAGE_BITS]
        m.d.comb += [
            self.first.payload.addr.eq(burst.addr),
            self.first.payload.len.eq(burst.len | 1),
            self.second.payload.addr.eq(Cat((place + first_beats * (2 * WORD_BYTES))[:PAGE_BITS], page)),
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
    """A wide beat as two words, the low one first. Latency: none. Throughput: a beat in two cycles.

    Members
    -------
    beats: In, stream of `write_layout` of 128 bits. words: Out, stream of `write_layout` of 64 bits.
    """

    def __init__(self):
        super().__init__(
            {
                "beats": In(stream.Signature(write_layout(2 * HP_DATA_BITS))),
                "words": Out(stream.Signature(write_layout(HP_DATA_BITS))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat, word = self.beats.payload, self.words.payload
        high = Signal()
        m.d.comb += [
            self.words.valid.eq(self.beats.valid),
            self.beats.ready.eq(self.words.ready & high),
            word.data.eq(beat.data.word_select(high, HP_DATA_BITS)),
            word.strb.eq(beat.strb.word_select(high, WORD_BYTES)),
            word.last.eq(beat.last & high),
        ]
        with m.If(self.words.valid & self.words.ready):
            m.d.sync += high.eq(~high)
        return m
