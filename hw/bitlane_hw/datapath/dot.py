"""The exact dot products of a row with the model, digit by digit."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane_hw.common.fixed_point import add_or_subtract, add_three, register
from bitlane_hw.common.payloads import digits_of_word, dot_bits, dots_layout, row_layout
from bitlane_hw.common.staged import Staged


class SignedSum(wiring.Component):
    """Sum the 32 weights of a chunk, each with a sign.

        sum_j weights[j] * (1 if signs[j] else -1) = total if positive else -total

    The block is a tree of adders. Each adder adds a pair if the signs of its operands are equal and subtracts it
    otherwise, and passes on the sign of its first operand. A sign thus costs a carry input, and no weight is negated.

    Latency: 3 cycles. Throughput: one sum a cycle. No backpressure.

    Members
    -------
    weights : 32 values of format WEIGHT, in
        Weights of the chunk.
    signs : 32 bits, in
        Sign of each weight; 1 is plus.
    total : signed, out
        The sum, up to its sign.
    positive : 1 bit, out
        1 if the sum is `total`, 0 if it is `-total`.
    """

    LEVELS = CHUNK.bit_length() - 1
    STAGES = (1, 3, 5)  # levels followed by registers; the first comes early because the weights arrive late
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
    """Compute both dot products of each row: dot1 = q.X + u1.X and dot2 = q.X + u2.X; without draws both are q.X.

    There is a `SignedSum` for each bit of a digit; H and L are their sums for digits 2h + l. A base word replaces the
    total of its chunk by 4 total + 2 H + L. A draw word adds H to dot1 and L to dot2. The results are exact: `dot_bits`
    wide, in units of 2**-(WEIGHT.fraction + base bits).

    Latency: 6 cycles from the last word of a row. Throughput: one word a cycle, with gaps anywhere. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    digits : stream of row_layout, in, always ready
        Digit words.
    weights : 32 values of format WEIGHT, in
        Weights of the chunk, one cycle after its digit word.
    dots : stream of dots_layout, out, always ready
        Dot products.
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

        # A chunk is added in stage `total`, and to its row in stage `add`.
        total, add = 1 + SignedSum.latency, 2 + SignedSum.latency
        *_, total_valid, add_valid = Staged(self.digits.valid, 0).valid_until(m, add, "valid")
        draw, first, last_base, row_last = (
            Staged(digits[name], 0).until(m, total, name) for name in ("draw", "first", "last_base", "row_last")
        )

        # Base digits of the chunk, most significant first.
        chunk_total = Signal(signed(dot_bits(CHUNK)))
        previous = Mux(first.at(total), 0, chunk_total << 2)
        minus = (~high.positive, ~low.positive)
        with m.If(total_valid.at(total)):
            m.d.sync += chunk_total.eq(add_three(previous, (high.total << 1, low.total), minus, len(chunk_total)))

        # Row: the total of a chunk after its last base digit, and the draws.
        adds = (draw | last_base).registered(m, "adds").at(add)
        adds_draw = draw.registered(m, "adds_draw").at(add)
        ends_row = row_last.registered(m, "ends_row").at(add)
        valid = add_valid.at(add)
        row_begins = Signal(init=1)
        for i, (dot, signed_sum) in enumerate(((dots.dot1, high), (dots.dot2, low))):
            drawn = register(m, signed_sum.total, f"drawn_{i}")
            minus = adds_draw & ~register(m, signed_sum.positive, f"drawn_positive_{i}")
            with m.If(valid & adds):
                m.d.sync += dot.eq(add_or_subtract(Mux(row_begins, 0, dot), Mux(adds_draw, drawn, chunk_total), minus))
        with m.If(valid & adds):
            m.d.sync += row_begins.eq(ends_row)
        m.d.sync += self.dots.valid.eq(valid & ends_row)
        m.d.comb += dots.end.eq(Staged(digits.end, 0).until(m, self.latency, "end").at(self.latency))
        return m
