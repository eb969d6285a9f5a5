"""What changes from batch to batch and from epoch to epoch: steps, penalty_step, shrink phase."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.formats import DECAY_FRACTION, MANTISSA_BITS
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import Scale

PENALTY_STEP_BITS = 32
SCALES = ("step", "step_negative", "penalty_step")


class Schedule(wiring.Component):
    """Holds the steps and the penalty_step, decays them at an epoch's end, and says which batches shrink the weights.

    At each batch end phase += penalty_step32, modulo 2**32, where
    penalty_step32 = (penalty_step.mantissa << 16) >> penalty_step.exponent; a carry is a shrink
    (`docs/design.md`, L2).

    One multiplier decays one scale after the other, in four cycles after `epoch_end`: no row may need them in these.

    Members
    -------
    load: In(1), take the initial values.
    initial: In, `Scale` for each of SCALES. phase_initial: In(32).
    decay: In(17), in 2**-16.
    batch_end, epoch_end: In(1).
    scales: Out, `Scale` for each of SCALES. phase: Out(32).
    penalty_step32: Out(32), the penalty_step in 2**-32.
    shrink: Out(1), in the cycle of `batch_end`.
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

        turn = Signal(range(len(SCALES) + 1), init=len(SCALES))
        decayed = Signal.like(turn, init=len(SCALES))
        m.d.sync += decayed.eq(turn)
        after = self._decayed(m, Scale(Array(scale.as_value() for scale in self.scales)[turn]))
        with m.If(self.load):
            m.d.sync += [self.scales.eq(self.initial), self.phase.eq(self.phase_initial)]
        with m.Else():
            with m.If(self.batch_end):
                m.d.sync += self.phase.eq(total)
            with m.If(self.epoch_end):
                m.d.sync += turn.eq(0)
            with m.Elif(turn != len(SCALES)):
                m.d.sync += turn.eq(turn + 1)
            for i, scale in enumerate(self.scales):
                with m.If(decayed == i):
                    m.d.sync += scale.eq(after)
        return m

    def _decayed(self, m, scale):
        """scale * decay * 2**-DECAY_FRACTION, normalised while the exponent has room; a cycle later."""
        product = register(m, (scale.mantissa * self.decay)[: 2 * MANTISSA_BITS], "product")
        exponent = register(m, scale.exponent, "exponent")
        keep = Signal()
        after = Signal(Scale)
        m.d.comb += [
            keep.eq(product[-1] | exponent.all()),
            after.mantissa.eq(Mux(keep, product >> DECAY_FRACTION, product >> (DECAY_FRACTION - 1))),
            after.exponent.eq(exponent + ~keep),
        ]
        return after
