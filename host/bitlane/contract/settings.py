"""The registers that the arithmetic uses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .fixed_point import NO_DECAY, decayed
from .formats import BOUND
from .modes import Loss, Prox


@dataclass(frozen=True)
class Settings:
    """The settings of a run, as the integers of the registers.

    Parameters
    ----------
    step, step_negative : int
        Step of a row with a label of at least 0, and of a row with a negative label: ``mantissa | exponent << 16``.
    penalty_step : int, default=0
        In the same format: with `Prox.L2` the shrinks in a batch, with `Prox.L1` the threshold of a batch.
    decay : int, default=NO_DECAY
        Factor on the steps and the penalty step after each epoch, in units of ``2**-16``.
    phase : int, default=0
        Accumulator of shrinks, 32 bits.
    loss : Loss, default=Loss.SQUARES
    prox : Prox, default=Prox.NONE
    bounds : tuple of int
        Low and high end of the box, in units of ``2**-12``.
    unpenalized_intercept : bool, default=False
        Whether the proximal operator leaves out the last feature.
    staleness : {0, 1}, default=0
        How many batches old the model is that a batch reads.
    model_cut, scaled_gradient_cut : int, default=0
        Low bits that random rounding removes from the master weights that are published, and from s and d. 0: no
        rounding.
    seed : int, default=0
        Seed of random rounding, 32 bits.
    """

    step: int
    step_negative: int
    penalty_step: int = 0
    decay: int = NO_DECAY
    phase: int = 0
    loss: Loss = Loss.SQUARES
    prox: Prox = Prox.NONE
    bounds: tuple[int, int] = (BOUND.minimum, BOUND.maximum)
    unpenalized_intercept: bool = False
    staleness: int = 0
    model_cut: int = 0
    scaled_gradient_cut: int = 0
    seed: int = 0

    def after_epoch(self) -> Settings:
        """Return the settings after one epoch: steps and penalty step multiplied by the decay."""
        return replace(
            self,
            step=decayed(self.step, self.decay),
            step_negative=decayed(self.step_negative, self.decay),
            penalty_step=decayed(self.penalty_step, self.decay),
        )
