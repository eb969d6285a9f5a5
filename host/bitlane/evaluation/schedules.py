"""The schedule that compared trainings share."""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.contract.precision import Precision
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions


@dataclass(frozen=True)
class TrainingSchedule:
    """The options that all trainings of a comparison share, including float64; see `TrainingOptions`."""

    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 0.1
    decay: float = 1.0
    draws: str | int = "epoch"
    loss: str = "squared_error"
    fit_intercept: bool = True
    seed: int = 0

    def options(self, precision: Precision, levels: str = "uniform", staleness: int = 0) -> TrainingOptions:
        """Return the options of a training on the accelerator."""
        shared = {name: value for name, value in vars(self).items() if name != "loss"}
        return TrainingOptions(precision, Objective(self.loss), levels, staleness=staleness, **shared)
