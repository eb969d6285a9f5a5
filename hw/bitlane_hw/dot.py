"""The dot products of a row with the model, digit by digit and exact."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import CHUNK, WEIGHT
from .fixed import delay, delay_valid, popcount, register
from .payloads import digit_layout, digits_of_word, dots_layout


class SignedSum(wiring.Component):
    """sum over the 32 features of a chunk of weight * (sign ? 1 : -1).

    A weight to be subtracted enters the tree inverted; the ones that two's complement asks for are counted
    apart and join at the root. Latency 5, throughput one sum a cycle, no backpressure.

    Members
    -------
    weights: In, 32 signed weights.
    signs: In(32).
    total: Out, signed, the sum of 5 cycles ago.
    """

    LEVELS = CHUNK.bit_length() - 1
    latency = LEVELS

    def __init__(self):
        super().__init__(
            {
                "weights": In(WEIGHT.bits * CHUNK),
                "signs": In(CHUNK),
                "total": Out(signed(WEIGHT.bits + self.LEVELS + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        minus = ~self.signs
        terms: list[Value] = [
            (self.weights.word_select(j, WEIGHT.bits) ^ minus[j].replicate(WEIGHT.bits)).as_signed()
            for j in range(CHUNK)
        ]
        ones = delay(m, popcount(minus), self.LEVELS - 1, "ones")
        for level in range(self.LEVELS - 1):
            terms = [
                register(m, a + b, f"sum_{level}_{i}")
                for i, (a, b) in enumerate(zip(terms[::2], terms[1::2], strict=True))
            ]
        m.d.sync += self.total.eq(terms[0] + terms[1] + ones)
        return m


class DotLanes(wiring.Component):
    """dot1 = q.X + u1.X and dot2 = q.X + u2.X for each row; dot1 = dot2 = q.X where there are no draws.

    Two signed sums, one a digit bit: a base word of digits 2h + l adds 2 H + L to four times the chunk's total so
    far, a draw word adds H to dot1 and L to dot2. Exact: `dot_bits` wide, unit 2**-(WEIGHT.fraction + base bits).
    Latency 8 cycles from a row's last word; one word a cycle; gaps between words are free.

    Members
    -------
    digits: In, stream of `digit_layout`, always ready.
    address: Out, the chunk whose weights are read, in the word's cycle.
    weights: In, those weights, one cycle later.
    dots: Out, stream of `dots_layout`, always ready.
    """

    latency = 1 + SignedSum.latency + 2

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "digits": In(stream.Signature(digit_layout(config), always_ready=True)),
                "address": Out(range(config.max_chunks)),
                "weights": In(WEIGHT.bits * CHUNK),
                "dots": Out(stream.Signature(dots_layout(config), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        digits, dots = self.digits.payload, self.dots.payload
        m.submodules.high = high = SignedSum()
        m.submodules.low = low = SignedSum()
        m.d.comb += self.address.eq(digits.chunk)

        word = digits_of_word(register(m, digits.word, "word"))
        for j in range(CHUNK):
            m.d.comb += [high.signs[j].eq(word[j].high), low.signs[j].eq(word[j].low)]
        m.d.comb += [high.weights.eq(self.weights), low.weights.eq(self.weights)]

        sums_late = 1 + SignedSum.latency
        valid = delay_valid(m, self.digits.valid, self.latency, "valid")
        draw, first, last_base, row_last = (
            delay(m, digits[name], sums_late, name) for name in ("draw", "first", "last_base", "row_last")
        )

        # The chunk's base digits, most significant first.
        chunk_total = Signal(signed(len(dots.dot1)))
        with m.If(valid[sums_late - 1]):
            m.d.sync += chunk_total.eq(Mux(first, 0, chunk_total << 2) + ((high.total << 1) + low.total))

        # The row: a chunk's total when its last base digit is in it, and the draws.
        add_late = register(m, draw | last_base, "adds")
        draw_late = register(m, draw, "draw_late")
        row_late = register(m, row_last, "row_late")
        ends = delay(m, digits.end.as_value(), self.latency, "end")
        row_first = Signal(init=1)
        for dot, total in ((dots.dot1, high.total), (dots.dot2, low.total)):
            drawn = register(m, total, "drawn")
            with m.If(valid[sums_late] & add_late):
                m.d.sync += dot.eq(Mux(row_first, 0, dot) + Mux(draw_late, drawn, chunk_total))
        with m.If(valid[sums_late] & add_late):
            m.d.sync += row_first.eq(row_late)
        m.d.sync += self.dots.valid.eq(valid[sums_late] & row_late)
        m.d.comb += dots.end.as_value().eq(ends)
        return m
