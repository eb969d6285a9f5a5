"""The registers that the arithmetic reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .fixed_point import NO_DECAY, decayed
from .formats import BOUND
from .modes import Loss, Prox


@dataclass(frozen=True)
class Settings:
    """What is computed of the rows, in the integers that the registers take.

    Parameters
    ----------
    step, step_negative: `mantissa | exponent << 16`, the step of one row whose label is 0 or more, or less.
    rate: likewise; with `Prox.L2` the shrinks a batch, with `Prox.L1` the threshold a batch.
    decay: factor on steps and rate after each epoch, in 2**-16.
    phase: shrink accumulator, 32 bits.
    loss, prox: see `contract.Loss` and `contract.Prox`.
    bounds: low and high end of the box, in 2**-12.
    free: whether the last feature is spared by the prox.
    staleness: batches that the model a batch reads is behind: 0, or 1.
    model_cut, coefficient_cut: low bits that random rounding leaves out of the master weights that are published, and
        of s and d; 0 for none.
    seed: of random rounding, 32 bits.
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
        """The settings with steps and rate decayed once."""
        return replace(
            self,
            step=decayed(self.step, self.decay),
            step_negative=decayed(self.step_negative, self.decay),
            penalty_step=decayed(self.penalty_step, self.decay),
        )
