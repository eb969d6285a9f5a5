"""Two words as one wide beat, and the beats of two ports as the bursts that were asked for."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .axi3 import HP_DATA_BITS, read_layout, tagged_read_layout
from .downsizer import BURST

BEAT = read_layout(2 * HP_DATA_BITS)


class WordUpsizer(wiring.Component):
    """Every two words are a beat, the first its low half; its response is the worse of theirs.

    Latency: none from the second word. Throughput: a word a cycle.

    Members
    -------
    words: In, stream of `read_layout` of 64 bits. beats: Out, stream of `read_layout` of 128 bits.
    """

    def __init__(self):
        super().__init__(
            {"words": In(stream.Signature(read_layout(HP_DATA_BITS))), "beats": Out(stream.Signature(BEAT))}
        )

    def elaborate(self, platform):
        m = Module()
        words, beats = self.words, self.beats
        low = Signal.like(words.payload)
        has_low = Signal()
        m.d.comb += [
            words.ready.eq(~has_low | beats.ready),
            beats.valid.eq(words.valid & has_low),
            beats.payload.data.eq(Cat(low.data, words.payload.data)),
            beats.payload.resp.eq(low.resp | words.payload.resp),  # OKAY 00, SLVERR 10, DECERR 11
        ]
        with m.If(words.valid & words.ready):
            m.d.sync += has_low.eq(~has_low)
            with m.If(~has_low):
                m.d.sync += low.eq(words.payload)
        return m


class BurstUpsizer(wiring.Component):
    """Beats of both halves of each burst, one half after the other, as `BurstSplitter` cut it: the burst again.

    The next burst is known before the last beat of this one leaves. Latency: none for a beat whose turn it is.
    Throughput: a beat a cycle, bursts without a gap.

    Members
    -------
    bursts: In, stream of `BURST`, in the order of their beats.
    first, second: In, streams of `read_layout` of 128 bits.
    beats: Out, stream of `tagged_read_layout`.
    """

    def __init__(self):
        super().__init__(
            {
                "bursts": In(stream.Signature(BURST)),
                "first": In(stream.Signature(BEAT)),
                "second": In(stream.Signature(BEAT)),
                "beats": Out(stream.Signature(tagged_read_layout(2 * HP_DATA_BITS))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bursts, beats = self.bursts, self.beats
        begun = Signal()  # there is a burst, and
        is_second = Signal()  # in this half of it
        left = Signal(3)  # there are so many beats behind the next one;
        rest = Signal(range(9))  # its other half has so many.

        half_ends = left == 0
        ends = half_ends & (is_second | (rest == 0))
        source = Mux(is_second, self.second.payload.as_value(), self.first.payload.as_value())
        m.d.comb += [
            beats.valid.eq(begun & Mux(is_second, self.second.valid, self.first.valid)),
            Cat(beats.payload.data, beats.payload.resp).eq(source),
            beats.payload.last.eq(ends),
            self.first.ready.eq(begun & ~is_second & beats.ready),
            self.second.ready.eq(begun & is_second & beats.ready),
        ]
        goes = beats.valid & beats.ready
        m.d.comb += bursts.ready.eq(~begun | (goes & ends))
        with m.If(goes):
            m.d.sync += left.eq(left - 1)
            with m.If(half_ends):
                m.d.sync += [is_second.eq(1), left.eq(rest - 1)]
        with m.If(bursts.ready):
            m.d.sync += [
                begun.eq(bursts.valid),
                is_second.eq(0),
                left.eq(bursts.payload.len >> 1),
                rest.eq((bursts.payload.len + 1) >> 1),
                beats.payload.id.eq(bursts.payload.id),
            ]
        return m
