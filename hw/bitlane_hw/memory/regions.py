"""The number of beats in a set, computed before a run without a multiplier."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.payloads import settings_layout


class RegionSizes(wiring.Component):
    """Compute the number of beats in a base region and in a draw region.

        base_beats = groups * base_words + outputs * ceil(groups / label_groups)
        draw_beats = groups * chunks

    The block adds shifted copies of `groups`, one bit of the factors a cycle. Latency: as many cycles as the larger
    factor has bits, plus one. A new `start` discards a computation in progress.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    start : 1 bit, in
        Start a computation.
    settings : settings_layout, in
        Geometry of the run. Sampled with `start`.
    base_words : unsigned, in
        Base words of a row, chunks * base_digits for digit lanes. Sampled with `start`.
    base_beats : unsigned, out
        Beats of a base region. Valid while `done`.
    draw_beats : unsigned, out
        Beats of a draw region. Valid while `done`.
    done : 1 bit, out
        The sums are complete. Low from the cycle after `start` until then.
    """

    def __init__(self, config: AcceleratorConfig):
        size = config.address_bits - 3
        self._outputs = config.outputs
        self._label_groups = config.label_groups
        self._factor_bits = config.max_row_words.bit_length() + 5
        super().__init__(
            {
                "start": In(1),
                "settings": In(settings_layout(config)),
                "base_words": In(self._factor_bits),
                "base_beats": Out(size),
                "draw_beats": Out(size),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        settings = self.settings
        groups = Signal.like(self.base_beats)
        label_beats = (settings.groups + (self._label_groups - 1)) // self._label_groups
        base_factor = Signal(self._factor_bits)
        draw_factor = Signal(self._factor_bits)
        with m.If(self.start):
            m.d.sync += [
                groups.eq(settings.groups),
                base_factor.eq(self.base_words),
                draw_factor.eq(settings.chunks),
                self.base_beats.eq(label_beats * self._outputs),
                self.draw_beats.eq(0),
                self.done.eq(0),
            ]
        with m.Else():
            m.d.sync += [
                groups.eq(groups << 1),
                base_factor.eq(base_factor >> 1),
                draw_factor.eq(draw_factor >> 1),
                self.done.eq(~base_factor[1:].any() & ~draw_factor[1:].any()),
            ]
            with m.If(base_factor[0]):
                m.d.sync += self.base_beats.eq(self.base_beats + groups)
            with m.If(draw_factor[0]):
                m.d.sync += self.draw_beats.eq(self.draw_beats + groups)
        return m
