"""Width converters to twice the width of a port: words to beats, and beats of two ports to the requested bursts."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .downsizer import BURST
from .hp_port import ZYNQ_7000, HpPort, read_layout, tagged_read_layout


class WordUpsizer(wiring.Component):
    """Combine two words into a beat; the first word is the low half. The response is the worse of the two.

    Latency: none from the second word. Throughput: one word a cycle. Backpressure: a second word waits until its beat
    is taken.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    words : stream of read_layout, in
        Words of the port.
    beats : stream of read_layout, out
        Beats of twice the width.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        super().__init__(
            {
                "words": In(stream.Signature(read_layout(port.data_bits))),
                "beats": Out(stream.Signature(read_layout(2 * port.data_bits))),
            }
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
    """Restore the bursts that a `BurstDownsizer` split: the beats of the first half, then those of the second half.

    Latency: none for the next beat. Throughput: one beat a cycle, without gaps between bursts. Backpressure: a beat
    waits until it is taken; the half whose turn it is not waits.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    bursts : stream of BURST, in
        Bursts in the order of their beats.
    first : stream of read_layout of twice the width of the port, in
        Beats of the first halves.
    second : stream of read_layout, in
        Beats of the second halves.
    beats : stream of tagged_read_layout, out
        Beats of the bursts.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        beat = read_layout(2 * port.data_bits)
        super().__init__(
            {
                "bursts": In(stream.Signature(BURST)),
                "first": In(stream.Signature(beat)),
                "second": In(stream.Signature(beat)),
                "beats": Out(stream.Signature(tagged_read_layout(2 * port.data_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bursts, beats = self.bursts, self.beats
        in_burst = Signal()
        is_second = Signal()  # the next beat belongs to the second half
        left = Signal(3)  # beats of this half after the next one
        second_beats = Signal(range(9))  # beats of the second half

        half_ends = left == 0
        ends = half_ends & (is_second | (second_beats == 0))
        source = Mux(is_second, self.second.payload.as_value(), self.first.payload.as_value())
        m.d.comb += [
            beats.valid.eq(in_burst & Mux(is_second, self.second.valid, self.first.valid)),
            Cat(beats.payload.data, beats.payload.resp).eq(source),
            beats.payload.last.eq(ends),
            self.first.ready.eq(in_burst & ~is_second & beats.ready),
            self.second.ready.eq(in_burst & is_second & beats.ready),
        ]
        transfer = beats.valid & beats.ready
        m.d.comb += bursts.ready.eq(~in_burst | (transfer & ends))
        with m.If(transfer):
            m.d.sync += left.eq(left - 1)
            with m.If(half_ends):
                m.d.sync += [is_second.eq(1), left.eq(second_beats - 1)]
        with m.If(bursts.ready):
            m.d.sync += [
                in_burst.eq(bursts.valid),
                is_second.eq(0),
                left.eq(bursts.payload.len >> 1),
                second_beats.eq((bursts.payload.len + 1) >> 1),
                beats.payload.id.eq(bursts.payload.id),
            ]
        return m
