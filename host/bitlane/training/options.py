"""What a training is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.quantization.precision import Precision
from bitlane.quantization.stochastic import uses_random_rounding

from .objective import Bounds, ClassWeights, Objective


@dataclass(frozen=True)
class TrainingOptions:
    """What was asked of `train`, as far as bits depend on it: a resumed training must be asked for the same.

    All are `train`'s parameters of the same names; `bits`, `sampling` and `table` make its precision, `class_weight`
    is one pair a target.
    """

    bits: int
    sampling: str
    levels: str
    codebook: bool
    draws: str | int
    batch_size: int
    learning_rate: float
    decay: float
    loss: str
    penalty: str | None
    alpha: float
    bounds: Bounds | None
    staleness: int
    model_bits: int | None
    gradient_bits: int | None
    class_weight: tuple[ClassWeights, ...]
    fit_intercept: bool
    shuffle: bool
    seed: int

    @property
    def precision(self) -> Precision:
        """Of the stored samples."""
        return Precision(self.bits, self.sampling, self.codebook)

    @property
    def random(self) -> bool:
        """Whether anything is rounded at random."""
        return uses_random_rounding(self.model_bits, self.gradient_bits)

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        return Objective(self.loss, self.penalty, self.alpha, self.bounds)
