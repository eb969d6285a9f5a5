"""From the digits of parts to the words of a chunk, one after the other."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.encoding import CHUNK_PARTS
from bitlane.contract.layout import WORD_BITS
from bitlane_hw.common.fixed_point import delay_valid

from .payloads import DIGITS_BITS, part_layout

WORD_LATENCY = 2  # from the last part of a chunk to its first word


class WordAssembler(wiring.Component):
    """Collect the digits of the parts of a chunk, and send its words.

    The base words of a chunk leave one after the other, the most significant digit first; its draw words leave all at
    once, with the first base word. Digits of missing parts are 0. A label beat passes between the words of the chunks.

    Latency: `WORD_LATENCY` cycles from the last part, or from a label, to the first word. Throughput: one base word a
    cycle. The owner must leave as many cycles as a chunk has base words, at least one, between the last parts of two
    chunks. No backpressure.

    Parameters
    ----------
    base_digits : int
        Base digits, at most.
    sets : int
        Draw sets, at most.

    Members
    -------
    base : 1 bit, in
        Send base words.
    digits : unsigned, in
        Base digits of the run.
    sets : unsigned, in
        Draw sets of the run.
    part : 1 bit, in
        A part.
    flags : part_layout, in
        Its flags.
    base_planes : array of 8 bits, in
        Base digits of its values, the least significant first.
    draw_planes : array of 8 bits, in
        Draw digits of its values, for each draw set.
    label : 1 bit, in
        A label beat.
    label_beat : 64 bits, in
        The beat. Constant until it was sent.
    words : array of streams of words, out, always ready
        The words of the base region, then those of each draw region.
    """

    def __init__(self, base_digits: int, sets: int):
        super().__init__(
            {
                "base": In(1),
                "digits": In(range(base_digits + 1)),
                "sets": In(range(sets + 1)),
                "part": In(1),
                "flags": In(part_layout()),
                "base_planes": In(DIGITS_BITS).array(base_digits),
                "draw_planes": In(DIGITS_BITS).array(sets),
                "label": In(1),
                "label_beat": In(WORD_BITS),
                "words": Out(stream.Signature(WORD_BITS, always_ready=True)).array(sets + 1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        ends = delay_valid(m, self.part & self.flags.chunk_last, 1, "ends")[0]
        base = [self._collected(m, digits, ends, f"base_{i}") for i, digits in enumerate(self.base_planes)]
        draws = [self._collected(m, digits, ends, f"draw_{i}") for i, digits in enumerate(self.draw_planes)]
        label = delay_valid(m, self.label, WORD_LATENCY, "label")[-1]
        left = Signal.like(self.digits)
        with m.If(ends):
            m.d.sync += left.eq(Mux(self.base, self.digits, 0))
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        m.d.comb += [
            self.words[0].valid.eq((left != 0) | label),
            self.words[0].payload.eq(Mux(label, self.label_beat, Array(base)[left - 1])),
        ]
        complete = delay_valid(m, ends, 1, "complete")[0]
        for i, (words, word) in enumerate(zip(list(self.words)[1:], draws, strict=True)):
            m.d.comb += [words.valid.eq(complete & (i < self.sets)), words.payload.eq(word)]
        return m

    def _collected(self, m, digits, ends, name):
        """Return the word of a digit of a chunk, `WORD_LATENCY` cycles after the last part."""
        chunk = Signal(WORD_BITS, name=f"{name}_chunk")
        for index in range(CHUNK_PARTS):
            some = chunk.word_select(index, DIGITS_BITS)
            with m.If(self.part & (self.flags.slot == index)):
                m.d.sync += some.eq(digits)
            if index:  # clear what a short chunk leaves out; a part behind the end of a chunk has slot 0
                with m.If(ends):
                    m.d.sync += some.eq(0)
        word = Signal(WORD_BITS, name=f"{name}_word", reset_less=True)
        with m.If(ends):
            m.d.sync += word.eq(chunk)
        return word
