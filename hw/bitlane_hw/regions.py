"""How many words a set has, worked out before a run without a multiplier."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import LABELS_PER_WORD
from .payloads import settings_layout


class RegionSizes(wiring.Component):
    """base_words = rows * chunks * base_digits + ceil(rows / 4), draw_words = rows * chunks.

    Adds shifted copies of rows, a bit of the factors a cycle: `done` rises after as many cycles as the larger
    factor has bits, plus one.

    Members
    -------
    start: In(1). settings: In, stable from then on.
    base_words, draw_words: Out, right when `done`.
    done: Out(1), idle or ready; low from the cycle after `start` until the sums are complete.
    """

    def __init__(self, config: AcceleratorConfig):
        size = config.address_bits - 3
        self._factor_bits = config.max_row_words.bit_length() + 5
        super().__init__(
            {
                "start": In(1),
                "settings": In(settings_layout(config)),
                "base_words": Out(size),
                "draw_words": Out(size),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        settings = self.settings
        rows = Signal.like(self.base_words)
        base_factor = Signal(self._factor_bits)
        draw_factor = Signal(self._factor_bits)
        m.d.comb += self.done.eq((base_factor == 0) & (draw_factor == 0))
        with m.If(self.start):
            m.d.sync += [
                rows.eq(settings.rows),
                base_factor.eq(settings.chunks * settings.base_digits),
                draw_factor.eq(settings.chunks),
                self.base_words.eq((settings.rows + (LABELS_PER_WORD - 1)) // LABELS_PER_WORD),
                self.draw_words.eq(0),
            ]
        with m.Else():
            m.d.sync += [
                rows.eq(rows << 1),
                base_factor.eq(base_factor >> 1),
                draw_factor.eq(draw_factor >> 1),
            ]
            with m.If(base_factor[0]):
                m.d.sync += self.base_words.eq(self.base_words + rows)
            with m.If(draw_factor[0]):
                m.d.sync += self.draw_words.eq(self.draw_words + rows)
        return m
