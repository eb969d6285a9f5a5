"""The scalar stage between dot products and gradient: predictions, slopes of the loss, the loss, and the step."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LABEL, LOSS, RESIDUAL, SCALED_GRADIENT, STEP_FRACTION, WEIGHT_EXPONENT
from bitlane.contract.layout import MAX_DIGITS
from bitlane.contract.modes import Loss
from bitlane.contract.sigmoid_lut import LUT, LUT_ADDRESS_BITS, sigmoid_lut
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import (
    add_or_subtract,
    add_with_carry,
    inverted_if,
    register,
    round_and_saturate,
    round_half_up,
    saturate,
)
from bitlane_hw.common.payloads import Predictions, Scale, ScaledGradients, Slopes, dot_bits, dots_layout
from bitlane_hw.common.staged import Staged, follow, mux, steady, together

ONE = 1 << RESIDUAL.fraction


class Predict(wiring.Component):
    """Round both dot products of a row: z = saturate(round_half_up(dot, base bits - weight exponent)), as RESIDUAL.

    Latency: 2 cycles. Throughput: one row a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    base_digits : 5 bits, in
        Half the number of base bits. Constant from three cycles before the first row on, like the next member.
    weight_exponent : -8 to 7, in
        What weights count: 2**weight_exponent times their format.
    dots : stream of dots_layout, in, always ready
        Dot products.
    predictions : stream of Predictions, out, always ready
        Rounded dot products.
    clipped : 2 bits, out
        Flags of clipped predictions: z1, z2. Valid with `predictions`.
    """

    latency = 2

    def __init__(self, config: AcceleratorConfig):
        bits = dot_bits(config.max_features)
        # Bits of 2**(1 - base bits) * dot, both ends included. Levels, with 16 fraction bits, go from -2 to 2.
        self._quotient_bits = bits - 2 * MAX_DIGITS + 2 + config.table_lanes + WEIGHT_EXPONENT.maximum
        super().__init__(
            {
                "base_digits": In(5),
                "weight_exponent": In(signed(WEIGHT_EXPONENT.bits)),
                "dots": In(stream.Signature(dots_layout(config), always_ready=True)),
                "predictions": Out(stream.Signature(Predictions, always_ready=True)),
                "clipped": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        dots, out = self.dots.payload, self.predictions.payload
        largest = WEIGHT_EXPONENT.maximum  # dot products are shifted left by it, then only right
        right = register(m, ((self.base_digits << 1) + (largest - self.weight_exponent))[:6], "right")
        for i, (dot, z) in enumerate(((dots.dot1, out.z1), (dots.dot2, out.z2))):
            doubled = (Staged(dot, 0) << 1 + largest) >> steady(right)
            quotient = together(lambda doubled: doubled[: self._quotient_bits].as_signed(), doubled)
            shifted = quotient.registered(m, f"shifted_{i}")
            value, clipped = round_and_saturate(shifted.at(self.latency - 1), RESIDUAL)
            m.d.sync += [z.eq(value), self.clipped[i].eq(clipped)]
        m.d.comb += follow(m, self.dots, self.predictions, self.latency)
        return m


class Slope(wiring.Component):
    """Compute the slopes r of the loss at both predictions z of a row with label y, and the cost of the row.

        SQUARES    r = saturate(z - y)
        HINGE      r = -y if y z < 1, else 0                     y is the sign of the label, -1 or 1
                   cost = max(0, 1 - y z), summed over both z
        LOGISTIC   r = sigmoid(z) - [y > 0]                      sigmoid from the table of `contract.sigmoid_lut`
                   cost = log(1 + exp(-y z)) = max(0, -y z) + log(1 + exp(-|z|)), summed over both z

    Predictions, slopes and costs have the unit of RESIDUAL. Latency: 3 cycles: the table, its output register, the sum.
    Throughput: one row a cycle. No backpressure.

    Members
    -------
    loss : Loss, in
        Loss of the run.
    predictions : stream of Predictions, in, always ready
        Predictions.
    slopes : stream of Slopes, out, always ready
        Slopes and costs.
    clipped : 2 bits, out
        Flags of clipped slopes: r1, r2. Valid with `slopes`.
    """

    latency = 3

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
        entries = [sigmoid | cost << LUT.bits for sigmoid, cost in sigmoid_lut()]
        m.submodules.lut = lut = memory.Memory(shape=2 * LUT.bits, depth=1 << LUT_ADDRESS_BITS, init=entries)
        squares, logistic = self.loss == Loss.SQUARES, self.loss == Loss.LOGISTIC
        label = predictions.end.label
        read, add = self.latency - 2, self.latency - 1  # the memory gives an entry; the slope is added
        label_positive = Staged(~label[-1], 0).until(m, add, "label_positive").at(add)
        costs = []
        for i, (z, r) in enumerate(((predictions.z1, slopes.r1), (predictions.z2, slopes.r2))):
            entry = lut.read_port()
            magnitude = inverted_if(z[-1], z)[:-1]
            m.d.comb += entry.addr.eq(magnitude[-LUT_ADDRESS_BITS:])
            words = Staged(entry.data, read).registered(m, f"entry_{i}").at(add)
            sigmoid, cost = (words.word_select(half, LUT.bits) << LUT_SHIFT for half in (0, 1))

            value = Staged(self._difference(z, label, squares), 0).until(m, add, f"value_{i}").at(add)
            violates_margin = ~value[-1] & value[:-1].any()
            z_positive = Staged(~z[-1], 0).until(m, add, f"z_positive_{i}").at(add)
            residual, clipped = saturate(value, RESIDUAL)
            hinge_slope = Mux(label_positive, Const(-ONE, signed(RESIDUAL.bits)), ONE)  # for HINGE
            offset = Mux(label_positive ^ z_positive, hinge_slope, 0)
            logistic_slope = add_or_subtract(offset, _signed(sigmoid), z_positive)
            m.d.sync += [
                r.eq(Mux(squares, residual, Mux(logistic, logistic_slope, Mux(violates_margin, hinge_slope, 0)))),
                self.clipped[i].eq(squares & clipped),
            ]
            costs.append((Mux(violates_margin, value, 0), Mux(logistic, cost, 0)))
        (margin1, cost1), (margin2, cost2) = costs
        m.d.sync += [slopes.margin_cost.eq(margin1 + margin2), slopes.table_cost.eq(cost1 + cost2)]
        m.d.comb += follow(m, self.predictions, self.slopes, self.latency)
        return m

    def _difference(self, z, label, squares):
        """Return z - y (SQUARES), 1 - y z (HINGE) or -y z (LOGISTIC), computed by one adder."""
        flip = ~squares & ~label[-1]
        minus_label = ~(label << (RESIDUAL.fraction - LABEL.fraction))
        constant = Mux(squares, minus_label, Mux(self.loss == Loss.HINGE, ONE, 0))
        return add_with_carry(inverted_if(flip, z), _signed(constant), squares | flip)


LUT_SHIFT = RESIDUAL.fraction - LUT.fraction


def _signed(value):
    """Return an expression as a signed value of the same width; of one bit more if it is unsigned."""
    shape = value.shape()
    return value.as_signed() if shape.signed else (value + Const(0, signed(1))).as_signed()


class LossSum(wiring.Component):
    """Sum the loss over the rows of an epoch.

        SQUARES            loss += round_half_up(r1 * r2, 8)    unbiased estimate of the squared residual
        HINGE, LOGISTIC    loss += cost << 11                   mean of the losses at both predictions

    Latency: 5 cycles. Throughput: one group a cycle. No backpressure.

    Parameters
    ----------
    rows_per_beat : int
        Rows of a group.

    Members
    -------
    squares : 1 bit, in
        The loss is SQUARES.
    slopes : stream of an array of rows_per_beat Slopes, in, always ready
        Slopes and costs of each row of a group.
    clear : 1 bit, in
        Clear the sum. Must come before the first row of the next epoch.
    loss : LOSS.bits bits, out
        The sum, of format LOSS.
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
        multiplied, summed = self.latency - 2, self.latency - 1
        *_, valid = stages = Staged(self.slopes.valid, 0).valid_until(m, summed, "valid")
        inside = Cat(each.at(stage) for stage, each in enumerate(stages)).any()
        expect(m, platform, ~(self.clear & inside), "the loss is cleared before all rows of the epoch are added")
        added = 0
        for i, row in enumerate(self.slopes.payload):
            present = Staged(row.end.present, 0).until(m, multiplied, f"present_{i}")
            cost = Staged(row.margin_cost + row.table_cost, 0).until(m, multiplied, f"cost_{i}")
            r1 = Staged(row.r1, 0).registered(m, f"factor_1_{i}")
            r2 = Staged(row.r2, 0).registered(m, f"factor_2_{i}")
            product = (r1 * r2).until(m, multiplied, f"product_{i}")
            rounded = together(round_half_up, product, 2 * RESIDUAL.fraction - LOSS.fraction)
            row_loss = mux(steady(self.squares), rounded, cost << (LOSS.fraction - RESIDUAL.fraction - 1))
            added = added + mux(present, row_loss, 0)
        added = added.registered(m, "added")
        with m.If(self.clear):
            m.d.sync += self.loss.eq(0)
        with m.Elif(valid.at(summed)):
            m.d.sync += self.loss.eq(self.loss.as_signed() + added.at(summed))
        return m


class StepProduct(wiring.Component):
    """Multiply the sum and the difference of the slopes of a row by the step.

        total      = saturate(round_half_up((r1 + r2) * mantissa, exponent + 4))
        difference = saturate(round_half_up((r2 - r1) * mantissa, exponent + 4))

    The results have format SCALED_GRADIENT. The sign of the label selects mantissa and exponent. For a row that is not
    present both results are 0.

    Latency: 5 cycles. Throughput: one row a cycle. No backpressure; the results stay until those of the next row.

    Members
    -------
    step : Scale, in
        Step / batch size for rows with labels of 0 and more, in 2**-STEP_FRACTION.
    step_negative : Scale, in
        Step / batch size for rows with negative labels.
    slopes : stream of Slopes, in, always ready
        Slopes.
    scaled_gradients : stream of ScaledGradients, out, always ready
        Scaled gradients.
    clipped : 2 bits, out
        Flags of clipped values: total, difference. Valid with `scaled_gradients`.
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
        *_, valid, scaled_valid = Staged(self.slopes.valid, 0).valid_until(m, self.latency, "valid")
        scale = Mux(slopes.end.label[-1], self.step_negative.as_value(), self.step.as_value())
        # A row that is not present clears the step, not the slopes: if Yosys packs a register behind an adder into a
        # DSP, it loses the reset of that register.
        mantissa = Staged(Mux(slopes.end.present, Scale(scale).mantissa, 0), 0).registered(m, "mantissa")
        multiplied, shifted = self.latency - 2, self.latency - 1
        exponent = Staged(Scale(scale).exponent, 0).until(m, multiplied, "exponent")
        operands = (
            (slopes.r1 + slopes.r2, scaled_gradients.total),
            (slopes.r2 - slopes.r1, scaled_gradients.difference),
        )
        for i, (operand, scaled_gradient) in enumerate(operands):
            factor = Staged(operand, 0).registered(m, f"factor_{i}")
            product = (factor * mantissa).until(m, multiplied, f"product_{i}")
            quotient = ((product >> (self.SHIFT - 1)) >> exponent).registered(m, f"shifted_{i}")
            value, clipped = round_and_saturate(quotient.at(shifted), SCALED_GRADIENT)
            with m.If(valid.at(shifted)):
                m.d.sync += scaled_gradient.eq(value)
            m.d.sync += self.clipped[i].eq(valid.at(shifted) & clipped)
        m.d.comb += self.scaled_gradients.valid.eq(scaled_valid.at(self.latency))
        return m
