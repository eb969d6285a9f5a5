"""The exact dot products of a row with the model, from levels of codebooks."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import add_three
from bitlane_hw.common.payloads import dots_layout, row_layout, settings_layout
from bitlane_hw.common.staged import Staged

from .codebook import CodebookLookup, codebook_port


class TableDot(wiring.Component):
    """Compute both dot products of each row: dot1 = L1.X and dot2 = L2.X.

    L1 and L2 are the levels that the two draws of each feature selected. There are 32 multipliers. The draw word of a
    chunk uses them for two cycles, first for the levels of L1 and then for those of L2. An exact tree of adders
    follows, and a sum over the chunks. The unit of the results is 2**-(WEIGHT.fraction + LEVEL.fraction).

    Latency: 9 cycles from the last word of a row. Throughput: a draw word in two cycles; draw words must be at least
    two cycles apart. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with table lanes.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    digits : stream of row_layout, in, always ready
        Digit words.
    weights : 32 values of format WEIGHT, in
        Weights of the chunk, two cycles after its draw word.
    codebook : codebook_port, out
        Port of the codebooks.
    dots : stream of dots_layout, out, always ready
        Dot products.
    """

    STAGES = (2, 4)  # levels of the tree followed by registers; the last level is part of the sum over the row
    level_latency = 2  # cycles from a draw word to its levels: lookup and read
    sum_latency = level_latency + 3 + len(STAGES)  # the multipliers have three registers
    latency = sum_latency + 2

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "digits": In(stream.Signature(row_layout(config), always_ready=True)),
                "weights": In(WEIGHT.bits * CHUNK),
                "codebook": Out(codebook_port(config)),
                "dots": Out(stream.Signature(dots_layout(config), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        digits, dots = self.digits.payload, self.dots.payload
        m.submodules.lookup = lookup = CodebookLookup(self._config)
        m.d.comb += [
            lookup.settings.eq(self.settings),
            lookup.codes.valid.eq(self.digits.valid),
            *(lookup.codes.payload[name].eq(digits[name]) for name in ("word", "chunk", "half_digit", "draw")),
            self.codebook.addresses.eq(lookup.addresses),
        ]
        add, add_second = self.sum_latency, self.sum_latency + 1  # of the levels of L1 and of those of L2
        drawn = Staged(self.digits.valid & digits.draw, 0).valid_until(m, add_second, "drawn")
        following = self.digits.valid & digits.draw & drawn[1].at(1)
        expect(m, platform, ~following, "a draw word follows another one at once")
        left, right = (half.at(add) for half in self._sums(m, drawn[self.level_latency]))
        bits = LEVEL.bits + WEIGHT.bits + (self._config.max_features - 1).bit_length()
        row_last = Staged(digits.row_last, 0).until(m, add, "row_last")
        row_late = row_last.registered(m, "row_late")
        for i, (dot, ends, stage) in enumerate(((dots.dot1, row_last, add), (dots.dot2, row_late, add_second))):
            total = Signal(signed(bits), name=f"total_{i}")
            row_begins = Signal(init=1, name=f"row_begins_{i}")
            with m.If(drawn[stage].at(stage)):
                m.d.sync += [
                    total.eq(add_three(Mux(row_begins, 0, total), (left, right), (Const(0), Const(0)), bits)),
                    row_begins.eq(ends.at(stage)),
                ]
            m.d.comb += dot.eq(total)
        m.d.sync += self.dots.valid.eq((drawn[add_second] & row_late).at(add_second))
        m.d.comb += dots.end.eq(Staged(digits.end, 0).until(m, self.latency, "end").at(self.latency))
        return m

    def _sums(self, m, levels_valid):
        """Return the sums of level * weight over both halves of a chunk, in the stage for L1; one later for L2."""
        terms, multiply = [], self.level_latency + 1
        for j in range(CHUNK):
            weight = Signal(signed(WEIGHT.bits), name=f"weight_{j}", reset_less=True)
            with m.If(levels_valid.at(self.level_latency)):  # held for two multiplications
                m.d.sync += weight.eq(self.weights.word_select(j, WEIGHT.bits))
            read = Staged(self.codebook.levels.word_select(j, LEVEL.bits).as_signed(), self.level_latency)
            product = Staged(weight, multiply) * read.registered(m, f"level_{j}")
            terms.append(product.until(m, multiply + 2, f"product_{j}"))
        for stage in range(1, max(self.STAGES) + 1):
            terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=True)]
            if stage in self.STAGES:
                terms = [term.registered(m, f"sum_{stage}_{i}") for i, term in enumerate(terms)]
        return terms
