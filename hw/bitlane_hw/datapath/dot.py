"""The dot products of a row with the model, digit by digit and exact."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane_hw.common.fixed_point import add_or_subtract, add_three, delay, delay_valid, register
from bitlane_hw.common.payloads import digits_of_word, dot_bits, dots_layout, row_layout


class SignedSum(wiring.Component):
    """sum over the 32 features of a chunk of weight * (sign ? 1 : -1), up to a sign that comes with it.

    A tree of adders in which each pair is added or subtracted as its signs are alike or not, and takes the sign of its
    first: so a sign costs a carry-in, and no weight is ever negated. Latency 3, throughput one sum a cycle, no
    backpressure.

    Members
    -------
    weights: In, 32 signed weights.
    signs: In(32).
    total, positive: Out, signed and 1 bit: the sum of 3 cycles ago is positive ? total : -total.
    """

    LEVELS = CHUNK.bit_length() - 1
    STAGES = (1, 3, 5)  # levels behind which there are registers; the weights come late, from a memory
    latency = len(STAGES)

    def __init__(self):
        super().__init__(
            {
                "weights": In(WEIGHT.bits * CHUNK),
                "signs": In(CHUNK),
                "total": Out(signed(WEIGHT.bits + self.LEVELS)),
                "positive": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        terms = [(self.weights.word_select(j, WEIGHT.bits).as_signed(), self.signs[j]) for j in range(CHUNK)]
        for level in range(1, self.LEVELS + 1):
            terms = [
                (add_or_subtract(a, b, a_sign ^ b_sign), a_sign)
                for (a, a_sign), (b, b_sign) in zip(terms[::2], terms[1::2], strict=True)
            ]
            if level in self.STAGES:
                terms = [
                    (register(m, value, f"sum_{level}_{i}"), register(m, sign, f"sign_{level}_{i}"))
                    for i, (value, sign) in enumerate(terms)
                ]
        ((total, positive),) = terms
        m.d.comb += [self.total.eq(total), self.positive.eq(positive)]
        return m


class DotLanes(wiring.Component):
    """dot1 = q.X + u1.X and dot2 = q.X + u2.X for each row; dot1 = dot2 = q.X where there are no draws.

    Two signed sums, one a digit bit: a base word of digits 2h + l adds 2 H + L to four times the chunk's total so
    far, a draw word adds H to dot1 and L to dot2. Exact: `dot_bits` wide, unit 2**-(WEIGHT.fraction + base bits).
    Latency 6 cycles from a row's last word; one word a cycle; gaps between words are free.

    Members
    -------
    digits: In, stream of `row_layout`, always ready.
    weights: In, the chunk's weights, one cycle after its digit.
    dots: Out, stream of `dots_layout`, always ready.
    """

    latency = 1 + SignedSum.latency + 2

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "digits": In(stream.Signature(row_layout(config), always_ready=True)),
                "weights": In(WEIGHT.bits * CHUNK),
                "dots": Out(stream.Signature(dots_layout(config), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        digits, dots = self.digits.payload, self.dots.payload
        m.submodules.high = high = SignedSum()
        m.submodules.low = low = SignedSum()

        word = digits_of_word(register(m, digits.word, "word"))
        for j in range(CHUNK):
            m.d.comb += [high.signs[j].eq(word[j].high), low.signs[j].eq(word[j].low)]
        m.d.comb += [high.weights.eq(self.weights), low.weights.eq(self.weights)]

        sums_late = 1 + SignedSum.latency
        valid = delay_valid(m, self.digits.valid, sums_late + 1, "valid")
        draw, first, last_base, row_last = (
            delay(m, digits[name], sums_late, name) for name in ("draw", "first", "last_base", "row_last")
        )

        # The chunk's base digits, most significant first.
        chunk_total = Signal(signed(dot_bits(CHUNK)))
        before = Mux(first, 0, chunk_total << 2)
        minus = (~high.positive, ~low.positive)
        with m.If(valid[sums_late - 1]):
            m.d.sync += chunk_total.eq(add_three(before, (high.total << 1, low.total), minus, len(chunk_total)))

        # The row: a chunk's total when its last base digit is in it, and the draws.
        add_late = register(m, draw | last_base, "adds")
        draw_late = register(m, draw, "draw_late")
        row_late = register(m, row_last, "row_late")
        row_first = Signal(init=1)
        for i, (dot, total) in enumerate(((dots.dot1, high), (dots.dot2, low))):
            drawn = register(m, total.total, f"drawn_{i}")
            minus = draw_late & ~register(m, total.positive, f"drawn_positive_{i}")
            with m.If(valid[sums_late] & add_late):
                m.d.sync += dot.eq(add_or_subtract(Mux(row_first, 0, dot), Mux(draw_late, drawn, chunk_total), minus))
        with m.If(valid[sums_late] & add_late):
            m.d.sync += row_first.eq(row_late)
        m.d.sync += self.dots.valid.eq(valid[sums_late] & row_late)
        m.d.comb += dots.end.as_value().eq(delay(m, digits.end.as_value(), self.latency, "end"))
        return m
