"""What changes from batch to batch and from epoch to epoch: step, shrink rate, shrink phase."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .contract import DECAY_FRACTION, MANTISSA_BITS
from .payloads import Scale


def decayed(m: Module, scale: Value, decay: Value) -> None:
    """scale <- scale * decay * 2**-DECAY_FRACTION, normalised while the exponent has room."""
    product = Signal(2 * MANTISSA_BITS, name="product")
    keep = Signal(name="keep")
    m.d.comb += [
        product.eq(scale.mantissa * decay),
        keep.eq(product[-1] | scale.exponent.all()),
    ]
    m.d.sync += [
        scale.mantissa.eq(Mux(keep, product >> DECAY_FRACTION, product >> (DECAY_FRACTION - 1))),
        scale.exponent.eq(scale.exponent + ~keep),
    ]


class Schedule(wiring.Component):
    """Holds step and rate, decays both at an epoch's end, and says which batches shrink the weights.

    At each batch end phase += (rate.mantissa << 16) >> rate.exponent, modulo 2**32; a carry is a shrink
    (`docs/design.md`, L2).

    Members
    -------
    load: In(1), take the initial values.
    step_initial, rate_initial: In, `Scale`. phase_initial: In(32).
    decay: In(17), in 2**-16.
    batch_end, epoch_end: In(1).
    step, rate: Out, `Scale`. phase: Out(32).
    shrink: Out(1), in the cycle of `batch_end`.
    """

    def __init__(self):
        super().__init__(
            {
                "load": In(1),
                "step_initial": In(Scale),
                "rate_initial": In(Scale),
                "phase_initial": In(32),
                "decay": In(DECAY_FRACTION + 1),
                "batch_end": In(1),
                "epoch_end": In(1),
                "step": Out(Scale),
                "rate": Out(Scale),
                "phase": Out(32),
                "shrink": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rate32 = Signal(32)
        total = Signal(33)
        m.d.sync += rate32.eq((self.rate.mantissa << MANTISSA_BITS) >> self.rate.exponent)
        m.d.comb += [total.eq(self.phase + rate32), self.shrink.eq(self.batch_end & total[-1])]
        with m.If(self.load):
            m.d.sync += [
                self.step.eq(self.step_initial),
                self.rate.eq(self.rate_initial),
                self.phase.eq(self.phase_initial),
            ]
        with m.Else():
            with m.If(self.batch_end):
                m.d.sync += self.phase.eq(total)
            with m.If(self.epoch_end):
                decayed(m, self.step, self.decay)
                decayed(m, self.rate, self.decay)
        return m
