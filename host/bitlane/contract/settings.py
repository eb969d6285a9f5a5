"""The registers that the arithmetic uses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .fixed_point import NO_DECAY, decayed, split_float
from .formats import BOUND
from .further import FurtherLoss
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
    weight_exponent : int, default=0
        Weights count ``2**weight_exponent`` times their format, -8 to 7.
    model_cut, scaled_gradient_cut : int, default=0
        Low bits that random rounding removes from the master weights that are published, and from s and d. 0: no
        rounding. That of s and d falls with the step: see `cut_at`.
    seed : int, default=0
        Seed of random rounding, 32 bits.
    further_loss : FurtherLoss, default=FurtherLoss.NONE
        The loss, unless it is that of `loss`; only devices with `SoftwareConfig` have others.
    epsilon : int, default=0
        Epsilon of further losses, in units of ``2**-20``.
    shrink_step : int, default=0
        With `Prox.L1` the shrinks in a batch, beside the threshold: elastic net. Only devices with `SoftwareConfig`.
    shrink_phase : int, default=0
        Accumulator of these shrinks, 32 bits.
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
    weight_exponent: int = 0
    model_cut: int = 0
    scaled_gradient_cut: int = 0
    seed: int = 0
    further_loss: FurtherLoss = FurtherLoss.NONE
    epsilon: int = 0
    shrink_step: int = 0
    shrink_phase: int = 0

    @property
    def more_objectives(self) -> bool:
        """Whether a run needs a device with `SoftwareConfig`."""
        return self.further_loss != FurtherLoss.NONE or self.shrink_step != 0

    def after_epoch(self) -> Settings:
        """Return the settings after one epoch: all steps multiplied by the decay, and the cut to match."""
        step = decayed(self.step, self.decay)
        return replace(
            self,
            step=step,
            scaled_gradient_cut=self.cut_at(step),
            step_negative=decayed(self.step_negative, self.decay),
            penalty_step=decayed(self.penalty_step, self.decay),
            shrink_step=decayed(self.shrink_step, self.decay) if self.shrink_step else 0,
        )

    def cut_at(self, step: int) -> int:
        """Return the low bits that random rounding removes from s and d when decays have made the step this one.

        It falls by 1 each time that the exponent of the step has grown by 1, so that rounded gradients keep their bits.
        """
        (mantissa, before), (_, exponent) = split_float(self.step), split_float(step)
        return max(0, self.scaled_gradient_cut - (exponent - before)) if mantissa else self.scaled_gradient_cut
