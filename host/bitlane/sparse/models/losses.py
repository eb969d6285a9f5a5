"""The losses of a score: log loss and squared error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.compiling import inner

LOSSES = ("log_loss", "squared_error")
LOG_LOSS, SQUARED_ERROR = range(2)


@inner
def slope(loss: int, score: float, label: float) -> float:
    """Return the derivative of the loss by the score: sigmoid(score) - label, or score - label."""
    if loss == LOG_LOSS:
        return 1.0 / (1.0 + math.exp(-score)) - label
    return score - label


@inner
def row_weight(weights: NDArray[np.float32], row: int) -> float:
    """Return how many rows a row counts as; `weights` is empty if each counts as one."""
    return np.float64(weights[row]) if len(weights) else 1.0


def predictions(loss: str, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return probabilities for the log loss, and `scores` for the squared error."""
    if loss != "log_loss":
        return scores
    wide = scores.astype(np.float64)
    small = np.exp(-np.abs(wide))
    return np.asarray(np.where(wide >= 0, 1 / (1 + small), small / (1 + small)), np.float32)


def mean_loss(loss: str, scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the mean loss: log(1 + exp(z)) - y z, or 1/2 (z - y)^2, in float64."""
    z, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    losses = np.logaddexp(0, z) - y * z if loss == "log_loss" else (z - y) ** 2 / 2
    return float(np.mean(losses))


def check_labels(loss: str, labels: NDArray[np.float32]) -> None:
    """Check that labels are 0 or 1 for the log loss, and finite for the squared error.

    Raises
    ------
    DataError
        Naming the first row that fails.
    """
    good = (labels == 0) | (labels == 1) if loss == "log_loss" else np.isfinite(labels)
    if not good.all():
        row = int(np.argmin(good))
        wanted = "0 or 1" if loss == "log_loss" else "a finite number"
        raise DataError(f"label of row {row} must be {wanted}; got {labels[row]}")
