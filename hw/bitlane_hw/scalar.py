"""Between the dot products and the gradient: residuals, loss, and the step taken."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import COEFFICIENT, LABEL, LOSS, RESIDUAL, STEP_FRACTION
from .fixed import delay, delay_valid, register, round_half_up, saturate
from .payloads import Coefficients, Residuals, Scale, dots_layout


class Residual(wiring.Component):
    """r = saturate(saturate(round_half_up(dot, base bits)) - label), for both dot products of a row.

    Latency 4; a row a cycle; no backpressure.

    Members
    -------
    base_digits: In(5), half the base bits.
    dots: In, stream of `dots_layout`.
    residuals: Out, stream of `Residuals`.
    clipped: Out(4), for each dot product whether rounding clipped it (3 cycles late), and subtracting (4).
    """

    latency = 4

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "base_digits": In(5),
                "dots": In(stream.Signature(dots_layout(config), always_ready=True)),
                "residuals": Out(stream.Signature(Residuals, always_ready=True)),
                "clipped": Out(4),
            }
        )

    def elaborate(self, platform):
        m = Module()
        dots, residuals = self.dots.payload, self.residuals.payload
        valid = delay_valid(m, self.dots.valid, self.latency, "valid")
        label = delay(m, dots.end.label, 3, "label") << (RESIDUAL.fraction - LABEL.fraction)
        pairs = ((dots.dot1, residuals.r1), (dots.dot2, residuals.r2))
        for i, (dot, residual) in enumerate(pairs):
            # round_half_up in three steps: shift by multiples of 8 bits, by the rest, then round.
            coarse = register(m, (dot << 1) >> (self.base_digits[2:] << 3), f"coarse_{i}")
            fine = register(m, coarse >> (self.base_digits[:2] << 1), f"fine_{i}")
            product, product_clipped = saturate((fine >> 1) + fine[0], RESIDUAL)
            z = register(m, product, f"z_{i}")
            difference, difference_clipped = saturate(z - label, RESIDUAL)
            m.d.sync += [
                residual.eq(difference),
                self.clipped[2 * i].eq(valid[1] & product_clipped),
                self.clipped[2 * i + 1].eq(valid[2] & difference_clipped),
            ]
        m.d.comb += [
            self.residuals.valid.eq(valid[-1]),
            residuals.batch_last.eq(delay(m, dots.end.batch_last, self.latency, "batch_last")),
            residuals.epoch_last.eq(delay(m, dots.end.epoch_last, self.latency, "epoch_last")),
        ]
        return m


class Loss(wiring.Component):
    """loss += round_half_up(r1 * r2, 8): an unbiased estimate of the sum of squared residuals.

    Latency 4; cleared by `clear`, before the next epoch's first row.

    Members
    -------
    residuals: In, stream of `Residuals`.
    clear: In(1).
    loss: Out, format LOSS.
    """

    latency = 4

    def __init__(self):
        super().__init__(
            {
                "residuals": In(stream.Signature(Residuals, always_ready=True)),
                "clear": In(1),
                "loss": Out(LOSS.bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        residuals = self.residuals.payload
        valid = delay_valid(m, self.residuals.valid, self.latency - 1, "valid")
        r1 = register(m, residuals.r1, "factor_1")
        r2 = register(m, residuals.r2, "factor_2")
        product = delay(m, r1 * r2, 2, "product")
        with m.If(self.clear):
            m.d.sync += self.loss.eq(0)
        with m.Elif(valid[-1]):
            m.d.sync += self.loss.eq(
                self.loss.as_signed() + round_half_up(product, 2 * RESIDUAL.fraction - LOSS.fraction)
            )
        return m


class Step(wiring.Component):
    """total = saturate(round_half_up((r1 + r2) * mantissa, exponent + 4)), difference alike with r2 - r1.

    Latency 5; a row a cycle; no backpressure.

    Members
    -------
    step: In, `Scale`, step / batch in 2**-STEP_FRACTION.
    residuals: In, stream of `Residuals`.
    coefficients: Out, stream of `Coefficients`.
    clipped: Out(2).
    """

    latency = 5
    SHIFT = RESIDUAL.fraction + STEP_FRACTION - COEFFICIENT.fraction

    def __init__(self):
        super().__init__(
            {
                "step": In(Scale),
                "residuals": In(stream.Signature(Residuals, always_ready=True)),
                "coefficients": Out(stream.Signature(Coefficients, always_ready=True)),
                "clipped": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        residuals, coefficients = self.residuals.payload, self.coefficients.payload
        valid = delay_valid(m, self.residuals.valid, self.latency, "valid")
        operands = (
            (residuals.r1 + residuals.r2, coefficients.total),
            (residuals.r2 - residuals.r1, coefficients.difference),
        )
        for i, (operand, coefficient) in enumerate(operands):
            factor = register(m, operand, f"factor_{i}")
            product = delay(m, factor * self.step.mantissa, 2, f"product_{i}")
            shifted = register(m, (product >> (self.SHIFT - 1)) >> self.step.exponent, f"shifted_{i}")
            value, clipped = saturate((shifted >> 1) + shifted[0], COEFFICIENT)
            m.d.sync += [coefficient.eq(value), self.clipped[i].eq(valid[3] & clipped)]
        m.d.comb += [
            self.coefficients.valid.eq(valid[-1]),
            coefficients.batch_last.eq(delay(m, residuals.batch_last, self.latency, "batch_last")),
            coefficients.epoch_last.eq(delay(m, residuals.epoch_last, self.latency, "epoch_last")),
        ]
        return m
