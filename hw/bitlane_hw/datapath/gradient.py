"""The second use of a group of rows: its digits, with the two terms that each digit position chooses from."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import SCALED_GRADIENT
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import GroupEnd

from .terms import pass_members


class GradientPass(wiring.Component):
    """Walks through a group's beats again, with the terms of each digit position.

    Base digit k: plus = round_half_up(3 total, 2k + 4), minus = round_half_up(total, 2k + 4);
    draw digit after k base digits: plus = round_half_up(total, 2k + 2), minus = round_half_up(difference, 2k + 2).
    Begins in the cycle of `start`, one beat a cycle without a gap: groups follow one another at least
    as many cycles apart as they have beats. Latency 1 from start to first beat.

    Members
    -------
    settings: In, the run.
    start: In(1), the group's scaled_gradients are there, and stay until the next start.
    scaled_gradients: In, of each column's row.
    end: In, with `start`. prox: In, with `start`: what the update does besides.
    beats: In, stream of the group's beats, there when they are needed.
    passes: Out, stream of `pass_layout`, always ready.
    """

    latency = 1

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(pass_members(config))

    def elaborate(self, platform):
        m = Module()
        settings, out = self.settings, self.passes.payload
        busy = Signal()
        going = Signal()
        chunk = Signal.like(out.chunk)
        digit = Signal.like(settings.base_digits)
        end = Signal(GroupEnd)
        prox = Signal(Prox)
        last_digit = register(m, (settings.base_digits + settings.draws - 1)[: len(digit)], "last_digit")
        last_chunk = register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        first = ~digit.any()
        is_draw = digit == settings.base_digits
        last = digit == last_digit
        tail = chunk == last_chunk

        m.d.comb += [going.eq(busy | self.start), self.beats.ready.eq(going)]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), end.eq(self.end), prox.eq(self.prox)]
        with m.If(going):
            m.d.sync += digit.eq(digit + 1)
            with m.If(last):
                m.d.sync += [digit.eq(0), chunk.eq(chunk + 1)]
                with m.If(tail):
                    m.d.sync += [chunk.eq(0), busy.eq(0)]
        for column, scaled_gradients in enumerate(self.scaled_gradients):
            row = out.rows[column]
            plus, minus = self._terms(m, scaled_gradients, first, is_draw, column)
            m.d.sync += [
                row.word.eq(self.beats.payload.word_select(column, WORD_BITS)),
                row.plus.eq(plus),
                row.minus.eq(minus),
            ]
        m.d.sync += [
            self.passes.valid.eq(going),
            out.chunk.eq(chunk),
            out.first.eq(first),
            out.last.eq(last),
            out.tail.eq(tail),
            out.prox.eq(Mux(self.start, self.prox, prox)),
            out.end.eq(Mux(self.start, self.end.as_value(), end.as_value())),
        ]
        return m

    def _terms(self, m, scaled_gradients, first, is_draw, column):
        """Both terms, rounded to MASTER: the scaled_gradients in sixteenths of the digit's low bit, or quarters."""

        def by_digit(whole, name):
            """`whole` shifted right by two bits for each digit of its chunk gone by."""
            shifted = Signal.like(whole, name=f"{name}_{column}")
            now = Mux(first, whole, shifted)
            m.d.sync += shifted.eq(now >> 2)
            return now, shifted

        total, difference = scaled_gradients.total, scaled_gradients.difference
        triple = Signal(signed(SCALED_GRADIENT.bits + 2), name=f"triple_{column}")
        m.d.comb += triple.eq((total << 1) + total)
        total_now, _ = by_digit(total, "total")
        difference_now, _ = by_digit(difference, "difference")
        _, triple_shifted = by_digit(triple, "triple")

        # 3 total is not waited for: the first digit adds its parts together with the rounding.
        part = Mux(is_draw, total_now << 2, Mux(first, total, triple_shifted))
        rest = Mux(first & ~is_draw, total << 1, 0)
        return (part + rest + 8) >> 4, (Mux(is_draw, difference_now << 2, total_now) + 8) >> 4
