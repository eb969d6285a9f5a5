"""Mini-batch SGD of least squares in float32 BLAS, with bitlane's scaling, row order, learning rate and decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import Scaling, fit_scaling
from bitlane.support.rng import generator
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.options import DECAY

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ScaledTable:
    """A table that is ready for float32 SGD.

    Attributes
    ----------
    rows : float32 array [rows, m]
        Its columns that are not constant, within [-1, 1], in random order.
    labels : float32 array [rows]
        Within [-1, 1].
    scaling : Scaling
    """

    rows: Floats
    labels: Floats
    scaling: Scaling

    @classmethod
    def of(cls, X: Floats, y: Floats) -> ScaledTable:
        """Scale and shuffle X, float32 [rows, n], and y, float32 [rows]."""
        scaling = fit_scaling(X, y[:, None])
        active, order = scaling.active, generator(0, 0).permutation(len(X))
        rows = (X[:, active] - scaling.center[active].astype(np.float32))[order]
        rows /= scaling.scale[active].astype(np.float32)
        labels = (y - np.float32(scaling.label_center[0])) / np.float32(scaling.label_scale[0])
        return cls(rows, labels[order], scaling)

    def model(self, weights: Floats) -> tuple[Floats, float]:
        """Return coefficients, float32 [n], and intercept of weights, float32 [m]."""
        scaling = self.scaling
        coef = np.zeros(len(scaling.center))
        coef[scaling.active] = weights * float(scaling.label_scale[0]) / scaling.scale[scaling.active]
        return coef.astype(np.float32), float(scaling.label_center[0]) - float(coef @ scaling.center)


def rate_for(X: Floats, batch: int) -> float:
    """Return the automatic learning rate of float32 rows, float32 [rows, n]."""
    return suggest_learning_rate(X, batch, Precision(32, "full"))


def steps_of(rate: float, batch: int, epochs: int) -> Floats:
    """Return the factor of the summed gradient of a batch in each epoch: float32 [epochs]."""
    return (rate * DECAY ** np.arange(epochs) / batch).astype(np.float32)


def run_epoch(rows: Floats, labels: Floats, weights: Floats, batch: int, factor: np.float32) -> None:
    """Run an epoch, and change the weights.

    Parameters
    ----------
    rows : float32 array [rows, m]
    labels : float32 array [rows]
    weights : float32 array [m]
    batch : int
    factor : float32
        Learning rate over batch size.
    """
    for start in range(0, len(rows), batch):
        some = rows[start : start + batch]
        weights -= factor * ((some @ weights - labels[start : start + batch]) @ some)


def loss(X: Floats, y: Floats, coef: NDArray[Any], intercept: float) -> float:
    """Return the mean squared residual of a model on X, float32 [rows, n], and y, float32 [rows]."""
    return float(np.mean((X @ coef.astype(np.float32) + np.float32(intercept) - y) ** 2, dtype=np.float64))
