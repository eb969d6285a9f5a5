"""The second use of a group of rows: the levels that its draws chose, times the step's scaled_gradients."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, LEVEL_SCALED_GRADIENT, SCALED_GRADIENT
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.fixed_point import delay, delay_valid, register, rounded
from bitlane_hw.common.payloads import GroupEnd

from .levels import LevelLookup, level_port
from .terms import LevelTerms, pass_members


class TablePass(wiring.Component):
    """Walks through a group's beats again, and multiplies 32 levels of each row in a cycle.

        c_1 = saturate(round_half_up(total - difference, 6), LEVEL_COEFFICIENT), c_2 likewise of the sum
        terms of a chunk: round_half_up(L1 c_2, 13), and in the next cycle round_half_up(L2 c_1, 13)

    L1 and L2 are the levels that the two draws chose. Begins in the cycle of `start`, one beat a cycle but for draws
    that would follow one another, which wait a cycle: as they come from the sequencer, so groups follow one another at
    least as many cycles apart. The first terms come `latency` cycles after a chunk's draw word.

    Members
    -------
    settings: In, the run.
    start: In(1), the group's scaled_gradients are there, and stay until the next start.
    scaled_gradients: In, of each column's row.
    end: In, with `start`. prox: In, with `start`: what the update does besides.
    beats: In, stream of the group's beats, there when they are needed.
    tables: Out, `level_port` of each column.
    passes: Out, stream of `pass_layout`, always ready; gaps between chunks.
    clipped: Out, two bits a column, two cycles after `start`: which of its c_1, c_2 were clipped.
    """

    latency = 5

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                **pass_members(config),
                "tables": Out(level_port(config)).array(config.rows_per_beat),
                "clipped": Out(2 * config.rows_per_beat),
            }
        )

    def elaborate(self, platform):
        m = Module()
        draw, half, chunk = self._walk(m)
        drawn = delay_valid(m, draw, self.latency + 1, "drawn")
        started = delay_valid(m, self.start, 1, "started")[0]
        for column, row in enumerate(self.passes.payload.rows):
            m.submodules[f"lookup_{column}"] = lookup = LevelLookup(self._config)
            tables = self.tables[column]
            m.d.comb += [
                lookup.settings.eq(self.settings),
                lookup.codes.valid.eq(self.beats.ready),
                lookup.codes.payload.word.eq(self.beats.payload.word_select(column, WORD_BITS)),
                lookup.codes.payload.chunk.eq(chunk),
                lookup.codes.payload.half.eq(half),
                lookup.codes.payload.draw.eq(draw),
                tables.addresses.eq(lookup.addresses),
            ]
            scaled_gradient = self._scaled_gradient(m, column, started, drawn[0])
            for j, term in enumerate(row):
                level = register(m, tables.levels.word_select(j, LEVEL.bits).as_signed(), f"level_{column}_{j}")
                product = register(m, level * scaled_gradient, f"product_{column}_{j}")
                rounding = 1 << LevelTerms.SHIFT - 1  # round_half_up as the multiplier's own adder does it
                m.d.sync += term.eq((product + rounding) >> LevelTerms.SHIFT)
        m.d.comb += [
            self.passes.valid.eq(drawn[self.latency - 1] | drawn[self.latency]),
            self.passes.payload.first.eq(drawn[self.latency - 1]),
            self.passes.payload.last.eq(drawn[self.latency]),
        ]
        return m

    def _walk(self, m):
        """Whether a draw word is taken, whether the next word is one of half digits, and the chunk.

        Where the terms belong goes along with them, and stays for the second ones.
        """
        settings, out = self.settings, self.passes.payload
        busy = Signal()
        going = Signal()
        chunk = Signal.like(out.chunk)
        half = Signal()  # what the next word is: of half digits, of base digits, or a draw where it is neither
        base = Signal()
        end = Signal(GroupEnd)
        prox = Signal(Prox)
        tail = chunk == register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        draw = Signal()
        waits = ~half & ~base & delay_valid(m, draw, 1, "draw_before")[0]
        m.d.comb += [
            going.eq(busy | self.start),
            self.beats.ready.eq(going & ~waits),
            draw.eq(self.beats.ready & ~half & ~base),
        ]
        with m.If(self.start):
            m.d.sync += [busy.eq(1), end.eq(self.end), prox.eq(self.prox)]
        with m.If(self.beats.ready & half):
            m.d.sync += half.eq(0)
        with m.Elif(self.beats.ready & base):
            m.d.sync += base.eq(0)
        with m.Elif(draw):
            m.d.sync += [
                half.eq(settings.half & (tail | chunk[0])),
                base.eq(settings.base_digits[0]),
                chunk.eq(chunk + 1),
            ]
            with m.If(tail):
                m.d.sync += [chunk.eq(0), busy.eq(0)]
        with m.If(~going):
            m.d.sync += [half.eq(settings.half), base.eq(settings.base_digits[0])]
        for name, value in (("chunk", chunk), ("tail", tail), ("prox", Value.cast(prox)), ("end", end.as_value())):
            kept = Signal.like(value, name=f"kept_{name}")
            with m.If(draw):
                m.d.sync += kept.eq(value)
            m.d.comb += out[name].eq(delay(m, kept, self.latency - 1, name))
        return draw, half, chunk

    def _scaled_gradient(self, m, column, started, first):
        """c_2 and then c_1, three and four cycles after the draw word, in which the levels are multiplied."""
        row = self.scaled_gradients[column]
        shift = SCALED_GRADIENT.fraction - LEVEL_SCALED_GRADIENT.fraction
        limited = []
        for i, twice in enumerate((row.total - row.difference, row.total + row.difference)):
            halves = register(m, twice >> (shift - 1), f"halves_{i}_{column}")
            value, clipped = rounded(halves, LEVEL_SCALED_GRADIENT)
            limited.append(register(m, value, f"limited_{i}_{column}"))
            m.d.sync += self.clipped[2 * column + i].eq(started & clipped)
        chosen = register(m, Mux(first, limited[1], limited[0]), f"chosen_{column}")
        return register(m, chosen, f"coefficient_{column}")
