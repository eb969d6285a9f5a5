"""Between the dot products and the gradient: the slopes of the loss, the loss itself, and the step taken."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LABEL, LOSS, RESIDUAL, SCALED_GRADIENT, STEP_FRACTION
from bitlane.contract.layout import MAX_DIGITS
from bitlane.contract.modes import Loss
from bitlane.contract.sigmoid_lut import LUT, LUT_ADDRESS_BITS, sigmoid_lut
from bitlane_hw.common.fixed_point import (
    add_or_subtract,
    add_with_carry,
    delay,
    delay_valid,
    inverted_if,
    register,
    round_half_up,
    rounded,
    saturate,
)
from bitlane_hw.common.payloads import Predictions, Scale, ScaledGradients, Slopes, dot_bits, dots_layout

ONE = 1 << RESIDUAL.fraction


class Predict(wiring.Component):
    """z = saturate(round_half_up(dot, base bits)), for both dot products of a row.

    Latency 2; a row a cycle; no backpressure.

    Members
    -------
    base_digits: In(5), half the base bits.
    dots: In, stream of `dots_layout`.
    predictions: Out, stream of `Predictions`.
    clipped: Out(2), with the predictions: which of them were clipped.
    """

    latency = 2

    def __init__(self, config: AcceleratorConfig):
        bits = dot_bits(config.max_features)
        # Of 2**(1 - base bits) dot, both ends included; levels, in 16 bits, go from -2 to 2.
        self._quotient_bits = bits - 2 * MAX_DIGITS + 2 + config.table_lanes
        super().__init__(
            {
                "base_digits": In(5),
                "dots": In(stream.Signature(dots_layout(config), always_ready=True)),
                "predictions": Out(stream.Signature(Predictions, always_ready=True)),
                "clipped": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        dots, out = self.dots.payload, self.predictions.payload
        for i, (dot, z) in enumerate(((dots.dot1, out.z1), (dots.dot2, out.z2))):
            doubled = (dot << 1) >> (self.base_digits << 1)
            shifted = register(m, doubled[: self._quotient_bits].as_signed(), f"shifted_{i}")
            value, clipped = rounded(shifted, RESIDUAL)
            m.d.sync += [z.eq(value), self.clipped[i].eq(clipped)]
        m.d.comb += [
            self.predictions.valid.eq(delay_valid(m, self.dots.valid, self.latency, "valid")[-1]),
            out.end.as_value().eq(delay(m, dots.end.as_value(), self.latency, "end")),
        ]
        return m


class Slope(wiring.Component):
    """The slopes r of the loss at both predictions z of a row, and the loss; y is the label.

        SQUARES    r = saturate(z - y)
        HINGE      r = -y where y z < 1, else 0                  y the sign of the label, -1 or 1
                   cost = max(0, 1 - y z), of both z together
        LOGISTIC   r = sigmoid(z) - [y > 0]                      sigmoid from a table, `contract.logistic_table`
                   cost = log(1 + exp(-y z)) = max(0, -y z) + log(1 + exp(-|z|)), likewise

    Latency 2; a row a cycle; no backpressure.

    Members
    -------
    loss: In, `contract.Loss`.
    predictions: In, stream of `Predictions`.
    slopes: Out, stream of `Slopes`.
    clipped: Out(2), with the slopes: which of them were clipped.
    """

    latency = 2

    def __init__(self):
        super().__init__(
            {
                "loss": In(Loss),
                "predictions": In(stream.Signature(Predictions, always_ready=True)),
                "slopes": Out(stream.Signature(Slopes, always_ready=True)),
                "clipped": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        predictions, slopes = self.predictions.payload, self.slopes.payload
        cells = [sigmoid | cost << LUT.bits for sigmoid, cost in sigmoid_lut()]
        m.submodules.table = table = memory.Memory(shape=2 * LUT.bits, depth=1 << LUT_ADDRESS_BITS, init=cells)
        squares, logistic = self.loss == Loss.SQUARES, self.loss == Loss.LOGISTIC
        label = predictions.end.label
        label_positive = register(m, ~label[-1], "label_positive")
        costs = []
        for i, (z, r) in enumerate(((predictions.z1, slopes.r1), (predictions.z2, slopes.r2))):
            cell = table.read_port()
            magnitude = inverted_if(z[-1], z)[:-1]
            m.d.comb += cell.addr.eq(magnitude[-LUT_ADDRESS_BITS:])
            sigmoid, cost = (cell.data.word_select(half, LUT.bits) << TABLE_SHIFT for half in (0, 1))

            value = register(m, self._value(z, label, squares), f"value_{i}")
            loses = ~value[-1] & value[:-1].any()
            z_positive = register(m, ~z[-1], f"z_positive_{i}")
            residual, clipped = saturate(value, RESIDUAL)
            against = Mux(label_positive, Const(-ONE, signed(RESIDUAL.bits)), ONE)  # a slope of one
            offset = Mux(label_positive ^ z_positive, against, 0)
            curved = add_or_subtract(offset, _signed(sigmoid), z_positive)
            m.d.sync += [
                r.eq(Mux(squares, residual, Mux(logistic, curved, Mux(loses, against, 0)))),
                self.clipped[i].eq(squares & clipped),
            ]
            costs.append((Mux(loses, value, 0), Mux(logistic, cost, 0)))
        (lost1, cost1), (lost2, cost2) = costs
        m.d.sync += [slopes.margin_cost.eq(lost1 + lost2), slopes.table_cost.eq(cost1 + cost2)]
        m.d.comb += [
            self.slopes.valid.eq(delay_valid(m, self.predictions.valid, self.latency, "valid")[-1]),
            slopes.end.as_value().eq(delay(m, predictions.end.as_value(), self.latency, "end")),
        ]
        return m

    def _value(self, z, label, squares):
        """With one adder z - y (squares), 1 - y z (hinge), or - y z."""
        flip = ~squares & ~label[-1]
        minus_label = ~(label << (RESIDUAL.fraction - LABEL.fraction))
        constant = Mux(squares, minus_label, Mux(self.loss == Loss.HINGE, ONE, 0))
        return add_with_carry(inverted_if(flip, z), _signed(constant), squares | flip)


TABLE_SHIFT = RESIDUAL.fraction - LUT.fraction


def _signed(value):
    """An expression as a signed value of its own width, or of one bit more where it is unsigned."""
    shape = value.shape()
    return value.as_signed() if shape.signed else (value + Const(0, signed(1))).as_signed()


class LossSum(wiring.Component):
    """The loss, summed over the rows of an epoch.

        SQUARES    loss += round_half_up(r1 * r2, 8)        an unbiased estimate of the squared residual
        otherwise  loss += cost << 11                       the mean of both copies' losses

    Latency 5; cleared by `clear`, before the next epoch's first row.

    Parameters
    ----------
    rows_per_beat: rows that come together.

    Members
    -------
    squares: In(1).
    slopes: In, stream of `Slopes`, one for each column.
    clear: In(1).
    loss: Out, format LOSS.
    """

    latency = 5

    def __init__(self, rows_per_beat: int):
        super().__init__(
            {
                "squares": In(1),
                "slopes": In(stream.Signature(data.ArrayLayout(Slopes, rows_per_beat), always_ready=True)),
                "clear": In(1),
                "loss": Out(LOSS.bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        valid = delay_valid(m, self.slopes.valid, self.latency - 1, "valid")
        added = 0
        for column, row in enumerate(self.slopes.payload):
            present = delay(m, row.end.present, 3, f"present_{column}")
            cost = delay(m, row.margin_cost + row.table_cost, 3, f"cost_{column}")
            r1 = register(m, row.r1, f"factor_1_{column}")
            r2 = register(m, row.r2, f"factor_2_{column}")
            product = delay(m, r1 * r2, 2, f"product_{column}")
            rounded = round_half_up(product, 2 * RESIDUAL.fraction - LOSS.fraction)
            one = Mux(self.squares, rounded, cost << (LOSS.fraction - RESIDUAL.fraction - 1))
            added = added + Mux(present, one, 0)
        added = register(m, added, "added")
        with m.If(self.clear):
            m.d.sync += self.loss.eq(0)
        with m.Elif(valid[-1]):
            m.d.sync += self.loss.eq(self.loss.as_signed() + added)
        return m


class Step(wiring.Component):
    """total = saturate(round_half_up((r1 + r2) * mantissa, exponent + 4)), difference alike with r2 - r1.

    Mantissa and exponent are those of the label's sign; both results are 0 where there is no row. Latency 5; a row
    a cycle; no backpressure; the scaled_gradients stay until the next row's.

    Members
    -------
    step, step_negative: In, `Scale`, step / batch in 2**-STEP_FRACTION of rows with labels of 0 and more, and below.
    slopes: In, stream of `Slopes`.
    scaled_gradients: Out, stream of `Coefficients`.
    clipped: Out(2), with the scaled_gradients.
    """

    latency = 5
    SHIFT = RESIDUAL.fraction + STEP_FRACTION - SCALED_GRADIENT.fraction

    def __init__(self):
        super().__init__(
            {
                "step": In(Scale),
                "step_negative": In(Scale),
                "slopes": In(stream.Signature(Slopes, always_ready=True)),
                "scaled_gradients": Out(stream.Signature(ScaledGradients, always_ready=True)),
                "clipped": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        slopes, scaled_gradients = self.slopes.payload, self.scaled_gradients.payload
        valid = delay_valid(m, self.slopes.valid, self.latency, "valid")
        scale = Mux(slopes.end.label[-1], self.step_negative.as_value(), self.step.as_value())
        # Without a row the step is 0, not the slopes: Yosys loses the reset of a sum whose register a DSP takes.
        mantissa = register(m, Mux(slopes.end.present, Scale(scale).mantissa, 0), "mantissa")
        exponent = delay(m, Scale(scale).exponent, 3, "exponent")
        operands = (
            (slopes.r1 + slopes.r2, scaled_gradients.total),
            (slopes.r2 - slopes.r1, scaled_gradients.difference),
        )
        for i, (operand, scaled_gradient) in enumerate(operands):
            factor = register(m, operand, f"factor_{i}")
            product = delay(m, factor * mantissa, 2, f"product_{i}")
            shifted = register(m, (product >> (self.SHIFT - 1)) >> exponent, f"shifted_{i}")
            value, clipped = rounded(shifted, SCALED_GRADIENT)
            with m.If(valid[3]):
                m.d.sync += scaled_gradient.eq(value)
            m.d.sync += self.clipped[i].eq(valid[3] & clipped)
        m.d.comb += self.scaled_gradients.valid.eq(valid[-1])
        return m
