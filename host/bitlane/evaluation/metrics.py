"""Quality of linear models on a table: mean losses, accuracy, and the best possible values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.scaling import Floats, fit_scaling

BLOCK = 4096  # rows at a time

_LOSSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared_error": lambda scores, y: (scores - y) ** 2,
    "hinge": lambda scores, y: np.maximum(0.0, 1.0 - y * scores),
    "log_loss": lambda scores, y: np.logaddexp(0.0, -y * scores),
}
LOSS_NAMES = {"squared_error": "mean squared residual", "hinge": "mean hinge loss", "log_loss": "mean log loss"}
LOSS_UNITS = {"squared_error": "label units squared", "hinge": "no unit", "log_loss": "nats"}


def losses_of(X: Floats, y: Floats, coefficients: Floats, intercepts: Floats, loss: str = "squared_error") -> Floats:
    """Return the mean losses, float64 [models], of linear models.

    Parameters
    ----------
    X : float64 array [rows, n]
    y : float64 array [rows]
        -1 and 1 for hinge and log_loss.
    coefficients : float64 array [models, n]
    intercepts : float64 array [models]
    loss : str, default="squared_error"
        "squared_error" is the squared residual without the factor 1/2.
    """
    return _means(X, y, coefficients, intercepts, _LOSSES[loss])


def accuracies_of(X: Floats, y: Floats, coefficients: Floats, intercepts: Floats) -> Floats:
    """Return the shares, float64 [models], of rows whose score has the sign of y, -1 or 1; a score of 0 is -1."""
    return _means(X, y, coefficients, intercepts, lambda scores, labels: ((scores > 0) == (labels > 0)) + 0.0)


def _means(
    X: Floats, y: Floats, coefficients: Floats, intercepts: Floats, measure: Callable[[Floats, Floats], Floats]
) -> Floats:
    sums = np.zeros(len(coefficients))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(X), BLOCK):
            block = slice(start, start + BLOCK)
            sums += measure(X[block] @ coefficients.T + intercepts, y[block, None]).sum(axis=0)
    return sums / len(X)


def least_loss(X: Floats, y: Floats, fit_intercept: bool = True) -> float:
    """Return the mean squared residual of the best linear model, from the normal equations of the scaled table."""
    scaling = fit_scaling(X, y[:, None], fit_intercept)
    values = scaling.values(X)
    labels = y - scaling.label_center[0]
    gram, moment = values.T @ values, values.T @ labels
    weights = np.linalg.lstsq(gram, moment, rcond=None)[0]
    return float(np.mean((values @ weights - labels) ** 2))


def constant_loss(y: Floats, loss: str = "squared_error") -> float:
    """Return the least mean loss of a model with one output for all rows."""
    if loss == "squared_error":
        return float(np.var(y))
    shares: NDArray[np.float64] = np.array([np.mean(y < 0), np.mean(y > 0)])
    if loss == "hinge":
        return float(2 * shares.min())
    return float(-np.sum(shares * np.log(shares, where=shares > 0, out=np.zeros(2))))
