"""Values that change from batch to batch or from epoch to epoch: steps, penalty step, shrink phase."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.formats import DECAY_FRACTION, MANTISSA_BITS
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import Scale

PENALTY_STEP_BITS = 32
SCALES = ("step", "step_negative", "penalty_step")


class StepSchedule(wiring.Component):
    """Hold the steps and the penalty step, decay them after each epoch, and choose the batches that shrink the weights.

    At the end of each batch, with penalty_step32 = (penalty_step.mantissa << 16) >> penalty_step.exponent,

        phase = (phase + penalty_step32) mod 2**32,    shrink = 1 if the addition carries (`docs/design.md`, L2)

    After each epoch each scale is multiplied by decay * 2**-16 and normalised while its exponent has room. One
    multiplier decays one scale after the other, in the four cycles after `epoch_end`: no row may need the scales in
    these cycles.

    Latency: `shrink` is combinational; `penalty_step32` follows the penalty step by one cycle.

    Members
    -------
    load : 1 bit, in
        Take the initial values.
    initial : array of Scale, in
        Initial value of each of SCALES.
    phase_initial : 32 bits, in
        Initial phase.
    decay : 17 bits, in
        Factor of the decay, in 2**-16.
    batch_end : 1 bit, in
        A batch ends.
    epoch_end : 1 bit, in
        An epoch ends.
    scales : array of Scale, out
        Current value of each of SCALES.
    phase : 32 bits, out
        Current phase.
    penalty_step32 : 32 bits, out
        Penalty step in 2**-32.
    shrink : 1 bit, out
        The batch shrinks the weights. Valid in the cycle of `batch_end`.
    """

    def __init__(self):
        scales = data.ArrayLayout(Scale, len(SCALES))
        super().__init__(
            {
                "load": In(1),
                "initial": In(scales),
                "phase_initial": In(PENALTY_STEP_BITS),
                "decay": In(DECAY_FRACTION + 1),
                "batch_end": In(1),
                "epoch_end": In(1),
                "scales": Out(scales),
                "phase": Out(PENALTY_STEP_BITS),
                "penalty_step32": Out(PENALTY_STEP_BITS),
                "shrink": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        penalty_step = self.scales[SCALES.index("penalty_step")]
        total = Signal(PENALTY_STEP_BITS + 1)
        m.d.sync += self.penalty_step32.eq(
            (penalty_step.mantissa << (PENALTY_STEP_BITS - MANTISSA_BITS)) >> penalty_step.exponent
        )
        m.d.comb += [total.eq(self.phase + self.penalty_step32), self.shrink.eq(self.batch_end & total[-1])]

        index = Signal(range(len(SCALES) + 1), init=len(SCALES))
        decayed_index = Signal.like(index, init=len(SCALES))
        m.d.sync += decayed_index.eq(index)
        decayed = self._decay(m, Scale(Array(scale.as_value() for scale in self.scales)[index]))
        with m.If(self.load):
            m.d.sync += [self.scales.eq(self.initial), self.phase.eq(self.phase_initial)]
        with m.Else():
            with m.If(self.batch_end):
                m.d.sync += self.phase.eq(total)
            with m.If(self.epoch_end):
                m.d.sync += index.eq(0)
            with m.Elif(index != len(SCALES)):
                m.d.sync += index.eq(index + 1)
            for i, scale in enumerate(self.scales):
                with m.If(decayed_index == i):
                    m.d.sync += scale.eq(decayed)
        return m

    def _decay(self, m, scale):
        """Return scale * decay * 2**-DECAY_FRACTION, normalised while the exponent has room, one cycle later."""
        product = register(m, (scale.mantissa * self.decay)[: 2 * MANTISSA_BITS], "product")
        exponent = register(m, scale.exponent, "exponent")
        keep_exponent = Signal()
        decayed = Signal(Scale)
        m.d.comb += [
            keep_exponent.eq(product[-1] | exponent.all()),
            decayed.mantissa.eq(Mux(keep_exponent, product >> DECAY_FRACTION, product >> (DECAY_FRACTION - 1))),
            decayed.exponent.eq(exponent + ~keep_exponent),
        ]
        return decayed
