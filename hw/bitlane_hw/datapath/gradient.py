"""The second pass over the beats of a group, with digit lanes."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import SCALED_GRADIENT
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import GroupEnd

from .terms import pass_members


class GradientPass(wiring.Component):
    """Read the beats of a group again and add the two terms that each digit position selects from.

    A digit with equal bits selects `plus`, any other digit `minus`; see `DigitTerms`. With total and difference of the
    scaled gradients of a row:

        base digit k                    plus = round_half_up(3 total, 2k + 4),  minus = round_half_up(total, 2k + 4)
        draw digit after k base digits  plus = round_half_up(total, 2k + 2),    minus = round_half_up(difference, 2k +
        2)

    The terms have the unit of MASTER. A pass starts in the cycle of `start`. Latency: one cycle from `start` to the
    first beat. Throughput: one beat a cycle without gaps; the starts of two groups must be at least as many cycles
    apart as the first group has beats. No backpressure. If rows have one chunk, every group of a batch but the first
    continues the sum of the group before.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    start : 1 bit, in
        The scaled gradients of a group are valid. They stay constant until the next `start`.
    scaled_gradients : array of rows_per_beat ScaledGradients, in
        Scaled gradients of each row of the group.
    end : GroupEnd, in
        Facts about the group. Valid with `start`.
    prox : Prox, in
        Proximal operator of the update. Valid with `start`.
    beats : stream of beats, in
        The beats of the group. They must be valid when the pass needs them.
    passes : stream of pass_layout, out, always ready
        The beats with their terms.
    """

    latency = 1

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(pass_members(config))

    def elaborate(self, platform):
        m = Module()
        settings, out = self.settings, self.passes.payload
        busy = Signal()
        active = Signal()
        chunk = Signal.like(out.chunk)
        digit = Signal.like(settings.base_digits)
        end = Signal(GroupEnd)
        prox = Signal(Prox)
        batch_begins = Signal(init=1)
        one_chunk = register(m, settings.chunks == 1, "one_chunk")
        last_digit = register(m, (settings.base_digits + settings.draws - 1)[: len(digit)], "last_digit")
        last_chunk = register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        is_first = ~digit.any()
        is_draw = digit == settings.base_digits
        is_last_digit = digit == last_digit
        is_last_chunk = chunk == last_chunk

        expect(m, platform, ~active | self.beats.valid, "the gradient pass needs a beat that has not arrived")
        expect(m, platform, ~(self.start & busy), "a gradient pass starts before the last one has ended")
        m.d.comb += [active.eq(busy | self.start), self.beats.ready.eq(active)]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), end.eq(self.end), prox.eq(self.prox), batch_begins.eq(self.end.batch_last)]
        with m.If(active):
            m.d.sync += digit.eq(digit + 1)
            with m.If(is_last_digit):
                m.d.sync += [digit.eq(0), chunk.eq(chunk + 1)]
                with m.If(is_last_chunk):
                    m.d.sync += [chunk.eq(0), busy.eq(0)]
        for i, scaled_gradients in enumerate(self.scaled_gradients):
            row = out.rows[i]
            plus, minus = self._terms(m, scaled_gradients, is_first, is_draw, i)
            m.d.sync += [
                row.word.eq(self.beats.payload.word_select(i, WORD_BITS)),
                row.plus.eq(plus),
                row.minus.eq(minus),
            ]
        m.d.sync += [
            self.passes.valid.eq(active),
            out.chunk.eq(chunk),
            out.first.eq(is_first),
            out.continues.eq(self.start & one_chunk & ~batch_begins),
            out.last.eq(is_last_digit),
            out.last_chunk.eq(is_last_chunk),
            out.prox.eq(Mux(self.start, self.prox, prox)),
            out.end.eq(Mux(self.start, self.end.as_value(), end.as_value())),
        ]
        return m

    def _terms(self, m, scaled_gradients, is_first, is_draw, i):
        """Return `plus` and `minus`, rounded to the unit of MASTER.

        The scaled gradients are in sixteenths of the low bit of a base digit, and in quarters for a draw digit.
        """

        def shift_by_digit(value, name):
            """Return `value` shifted right by two bits for each earlier digit of its chunk, and the register of it."""
            shifted = Signal.like(value, name=f"{name}_{i}")
            current = Mux(is_first, value, shifted)
            m.d.sync += shifted.eq(current >> 2)
            return current, shifted

        total, difference = scaled_gradients.total, scaled_gradients.difference
        triple = Signal(signed(SCALED_GRADIENT.bits + 2), name=f"triple_{i}")
        m.d.comb += triple.eq((total << 1) + total)
        current_total, _ = shift_by_digit(total, "total")
        current_difference, _ = shift_by_digit(difference, "difference")
        _, shifted_triple = shift_by_digit(triple, "triple")

        # The first digit adds total and 2 total together with the rounding: 3 total would arrive too late.
        addend = Mux(is_draw, current_total << 2, Mux(is_first, total, shifted_triple))
        twice = Mux(is_first & ~is_draw, total << 1, 0)
        return (addend + twice + 8) >> 4, (Mux(is_draw, current_difference << 2, current_total) + 8) >> 4
