"""The schedule that compared trainings share, and a learning rate that suits a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import Floats, fit_scaling
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions

DECAY = 0.8  # of the learning rate after each epoch: the noise of the batches is gone after about 20
LARGEST = 1.0
ROWS = 10_000  # looked at
CURVATURE = {"log_loss": 0.25}  # the largest second derivative of the loss; 1 for the others
NOISE = 0.5  # share of a weight's energy that the draws of one row may feed back in one step


@dataclass(frozen=True)
class Schedule:
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


def suggest_learning_rate(
    X: Floats,
    batch_size: int,
    precision: Precision | None = None,
    fit_intercept: bool = True,
    loss: str = "squared_error",
) -> float:
    """Return about half of the largest learning rate at which mini-batch SGD on the scaled table converges.

    With the stored rows v and the largest curvature c of the loss (1/4 for log_loss, otherwise 1, which for hinge is
    the rise of the slope over one unit of margin), mean-square stability needs ``rate < 2 / c / (lambda_max(E[v v']) +
    E[|v|^2] / batch)``. The result is half of this bound, at most ``1 / c``. Independent draws at `precision` add noise
    that is not small in directions in which the data is: the rate is also kept below ``NOISE / c / E[|Q - v|^2]``.

    Parameters
    ----------
    X : float64 array [rows, n]
    batch_size : int
    precision : Precision, optional
        None to ignore the noise of draws.
    fit_intercept : bool, default=True
    loss : str, default="squared_error"

    Returns
    -------
    float
        Rounded down to two digits.
    """
    step = max(1, len(X) // ROWS)
    margins = loss != "squared_error"
    scaling = fit_scaling(X, np.ones((len(X), 1)), fit_intercept, margins=margins, intercept_value=float(margins))
    values = scaling.values(X[::step])
    curvature = CURVATURE.get(loss, 1.0)
    energy = float(np.mean(np.einsum("ij,ij->i", values, values))) if len(scaling.active) else 0.0
    if energy == 0.0:
        return LARGEST / curvature
    rate = 1.0 / (_largest_eigenvalue(values) + energy / batch_size)
    if precision is not None and precision.draws:
        rate = min(rate, NOISE / max(_draw_variance(values, precision.base_bits), 1e-9))
    return _two_digits(min(rate, LARGEST) / curvature)


def _largest_eigenvalue(values: Floats) -> float:
    """Return the largest eigenvalue of ``values' values / rows`` by power iteration, at most about 1 % too low."""
    vector = np.random.default_rng(0).standard_normal(values.shape[1])
    largest = 0.0
    for _ in range(30):
        product = values.T @ (values @ vector) / len(values)
        largest = float(np.linalg.norm(product))
        if largest == 0.0:
            return 0.0
        vector = product / largest
    return largest


def _draw_variance(values: Floats, base_bits: int) -> float:
    """Return E[|Q - v|^2] over rows: each feature adds width^2 p (1 - p), with the position p of v in its interval."""
    width = 2.0 ** (1 - base_bits)
    place = np.mod((values + 1.0) / width, 1.0)
    return float(np.mean(np.sum(width**2 * place * (1.0 - place), axis=1)))


def _two_digits(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / unit + 1e-9) * unit:.6g}")
