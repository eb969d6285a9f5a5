"""The dot products of a row with the model, of levels that are looked up, exact."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane_hw.common.fixed_point import add_three, delay, delay_valid, register
from bitlane_hw.common.payloads import dots_layout, row_layout, settings_layout

from .levels import LevelLookup, level_port


class TableDot(wiring.Component):
    """dot1 = L1.X and dot2 = L2.X for each row, with the levels L1 and L2 that the two draws of a feature chose.

    32 multipliers: a chunk's draw word takes them for two cycles, with its first levels and with its second ones, so
    two draw words come two cycles apart at least. An exact tree of adders behind them, and a sum over the chunks, unit
    2**-(WEIGHT.fraction + LEVEL.fraction). Latency 9 cycles from a row's last word; no backpressure.

    Members
    -------
    settings: In, the run.
    digits: In, stream of `row_layout`, always ready.
    weights: In, a chunk's weights, two cycles after its draw word.
    tables: Out, `level_port`.
    dots: Out, stream of `dots_layout`, always ready.
    """

    STAGES = (2, 4)  # levels of the tree behind which there are registers; the last is added with the row's sum
    to_levels = 2  # from a draw word: the lookup, and the read
    to_sums = to_levels + 3 + len(STAGES)  # the multipliers' three registers
    latency = to_sums + 2

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "digits": In(stream.Signature(row_layout(config), always_ready=True)),
                "weights": In(WEIGHT.bits * CHUNK),
                "tables": Out(level_port(config)),
                "dots": Out(stream.Signature(dots_layout(config), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        digits, dots = self.digits.payload, self.dots.payload
        m.submodules.lookup = lookup = LevelLookup(self._config)
        m.d.comb += [
            lookup.settings.eq(self.settings),
            lookup.codes.valid.eq(self.digits.valid),
            *(lookup.codes.payload[name].eq(digits[name]) for name in ("word", "chunk", "half", "draw")),
            self.tables.addresses.eq(lookup.addresses),
        ]
        drawn = delay_valid(m, self.digits.valid & digits.draw, self.to_sums + 1, "drawn")
        left, right = self._sums(m, drawn[self.to_levels - 1])
        bits = LEVEL.bits + WEIGHT.bits + (self._config.max_features - 1).bit_length()
        row_last = delay(m, digits.row_last, self.to_sums, "row_last")
        row_late = register(m, row_last, "row_late")
        for i, (dot, ends) in enumerate(((dots.dot1, row_last), (dots.dot2, row_late))):
            total = Signal(signed(bits), name=f"total_{i}")
            fresh = Signal(init=1, name=f"fresh_{i}")  # a row begins
            with m.If(drawn[self.to_sums - 1 + i]):
                m.d.sync += [
                    total.eq(add_three(Mux(fresh, 0, total), (left, right), (Const(0), Const(0)), bits)),
                    fresh.eq(ends),
                ]
            m.d.comb += dot.eq(total)
        m.d.sync += self.dots.valid.eq(drawn[self.to_sums] & row_late)
        m.d.comb += dots.end.as_value().eq(delay(m, digits.end.as_value(), self.latency, "end"))
        return m

    def _sums(self, m, levels_come):
        """The sums over both halves of a chunk of level * weight, `to_sums` cycles after a draw word and one later."""
        terms = []
        for j in range(CHUNK):
            weight = Signal(signed(WEIGHT.bits), name=f"weight_{j}", reset_less=True)
            with m.If(levels_come):  # it is multiplied twice
                m.d.sync += weight.eq(self.weights.word_select(j, WEIGHT.bits))
            level = register(m, self.tables.levels.word_select(j, LEVEL.bits).as_signed(), f"level_{j}")
            terms.append(delay(m, weight * level, 2, f"product_{j}"))
        for stage in range(1, max(self.STAGES) + 1):
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
            if stage in self.STAGES:
                terms = [register(m, term, f"sum_{stage}_{i}") for i, term in enumerate(terms)]
        return terms
