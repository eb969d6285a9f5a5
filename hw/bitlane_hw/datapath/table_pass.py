"""The second pass over the beats of a group, with table lanes."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, LEVEL_SCALED_GRADIENT, SCALED_GRADIENT
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import delay, delay_valid, register, round_and_saturate
from bitlane_hw.common.payloads import GroupEnd

from .codebook import CodebookLookup, codebook_port
from .terms import LevelTerms, pass_members


class TablePass(wiring.Component):
    """Read the beats of a group again and multiply 32 levels of each row in a cycle.

    With total and difference of the scaled gradients of a row, and the levels L1 and L2 that the draws selected:

        c_1 = saturate(round_half_up(total - difference, 6))    c_2 = saturate(round_half_up(total + difference, 6))
        first terms of a chunk: round_half_up(L1 c_2, 13)       second terms: round_half_up(L2 c_1, 13)

    c_1 and c_2 have format LEVEL_SCALED_GRADIENT; the terms have the unit of MASTER. A pass starts in the cycle of
    `start`. Latency: `latency` cycles from the draw word of a chunk to its first terms, and one more to its second
    terms. Throughput: one beat a cycle, except that of two consecutive draw words the second waits one cycle. The
    sequencer sends beats at the same rate, so that a pass ends before the next `start`. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with table lanes.

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
    codebooks : array of rows_per_beat codebook_port, out
        Ports of the codebooks.
    passes : stream of pass_layout, out, always ready
        The terms, with gaps between chunks.
    clipped : 2 * rows_per_beat bits, out
        For each row, flags of clipped values: c_1, c_2. Valid two cycles after `start`.
    """

    latency = 5

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                **pass_members(config),
                "codebooks": Out(codebook_port(config)).array(config.rows_per_beat),
                "clipped": Out(2 * config.rows_per_beat),
            }
        )

    def elaborate(self, platform):
        m = Module()
        draw, half_digit, chunk = self._sequence_beats(m, platform)
        drawn = delay_valid(m, draw, self.latency + 1, "drawn")
        started = delay_valid(m, self.start, 1, "started")[0]
        for i, terms in enumerate(self.passes.payload.rows):
            m.submodules[f"lookup_{i}"] = lookup = CodebookLookup(self._config)
            codebook = self.codebooks[i]
            m.d.comb += [
                lookup.settings.eq(self.settings),
                lookup.codes.valid.eq(self.beats.ready),
                lookup.codes.payload.word.eq(self.beats.payload.word_select(i, WORD_BITS)),
                lookup.codes.payload.chunk.eq(chunk),
                lookup.codes.payload.half_digit.eq(half_digit),
                lookup.codes.payload.draw.eq(draw),
                codebook.addresses.eq(lookup.addresses),
            ]
            level_gradient = self._level_gradient(m, i, started, drawn[0])
            for j, term in enumerate(terms):
                level = register(m, codebook.levels.word_select(j, LEVEL.bits).as_signed(), f"level_{i}_{j}")
                product = register(m, level * level_gradient, f"product_{i}_{j}")
                rounding = 1 << LevelTerms.SHIFT - 1  # round_half_up with the adder of the multiplier block
                m.d.sync += term.eq((product + rounding) >> LevelTerms.SHIFT)
        m.d.comb += [
            self.passes.valid.eq(drawn[self.latency - 1] | drawn[self.latency]),
            self.passes.payload.first.eq(drawn[self.latency - 1]),
            self.passes.payload.last.eq(drawn[self.latency]),
        ]
        return m

    def _sequence_beats(self, m, platform):
        """Count the beats; return whether a draw word is taken, whether the next word holds half digits, and the chunk.

        The position of the terms is delayed with them, and held for the second terms.
        """
        settings, out = self.settings, self.passes.payload
        busy = Signal()
        active = Signal()
        chunk = Signal.like(out.chunk)
        half_digit = Signal()  # the next word holds half digits; if neither this nor `base`, draws
        base = Signal()  # the next word holds base digits
        end = Signal(GroupEnd)
        prox = Signal(Prox)
        batch_begins = Signal(init=1)
        continues = Signal()
        one_chunk = register(m, settings.chunks == 1, "one_chunk")
        is_last_chunk = chunk == register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        draw = Signal()
        expect(m, platform, ~self.beats.ready | self.beats.valid, "the table pass needs a beat that has not arrived")
        expect(m, platform, ~(self.start & busy), "a table pass starts before the last one has ended")
        wait = ~half_digit & ~base & delay_valid(m, draw, 1, "draw_before")[0]
        m.d.comb += [
            active.eq(busy | self.start),
            self.beats.ready.eq(active & ~wait),
            draw.eq(self.beats.ready & ~half_digit & ~base),
        ]
        with m.If(self.start):
            m.d.sync += [
                busy.eq(1),
                end.eq(self.end),
                prox.eq(self.prox),
                batch_begins.eq(self.end.batch_last),
                continues.eq(one_chunk & ~batch_begins),
            ]
        with m.If(self.beats.ready & half_digit):
            m.d.sync += half_digit.eq(0)
        with m.Elif(self.beats.ready & base):
            m.d.sync += base.eq(0)
        with m.Elif(draw):
            m.d.sync += [
                half_digit.eq(settings.half_digit & (is_last_chunk | chunk[0])),
                base.eq(settings.base_digits[0]),
                chunk.eq(chunk + 1),
            ]
            with m.If(is_last_chunk):
                m.d.sync += [chunk.eq(0), busy.eq(0)]
        with m.If(~active):
            m.d.sync += [half_digit.eq(settings.half_digit), base.eq(settings.base_digits[0])]
        position = {
            "chunk": chunk,
            "continues": continues,
            "last_chunk": is_last_chunk,
            "prox": Value.cast(prox),
            "end": end.as_value(),
        }
        for name, value in position.items():
            held = Signal.like(value, name=f"held_{name}")
            with m.If(draw):
                m.d.sync += held.eq(value)
            m.d.comb += out[name].eq(delay(m, held, self.latency - 1, name))
        return draw, half_digit, chunk

    def _level_gradient(self, m, row, started, first):
        """Return c_2 and then c_1, three and four cycles after the draw word, when the levels are multiplied."""
        given = self.scaled_gradients[row]
        shift = SCALED_GRADIENT.fraction - LEVEL_SCALED_GRADIENT.fraction
        limited = []
        for i, twice in enumerate((given.total - given.difference, given.total + given.difference)):
            halves = register(m, twice >> (shift - 1), f"halves_{i}_{row}")
            value, clipped = round_and_saturate(halves, LEVEL_SCALED_GRADIENT)
            limited.append(register(m, value, f"limited_{i}_{row}"))
            m.d.sync += self.clipped[2 * row + i].eq(started & clipped)
        chosen = register(m, Mux(first, limited[1], limited[0]), f"chosen_{row}")
        return register(m, chosen, f"level_gradient_{row}")
