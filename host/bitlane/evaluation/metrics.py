"""Quality of linear models on a table: mean losses, accuracy, and the best possible values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitlane.quantization.scaling import Floats, fit_scaling

BLOCK = 4096  # rows at a time

_LOSSES: dict[str, Callable[[Floats, Floats, float], Floats]] = {  # of scores, labels and epsilon
    "squared_error": lambda scores, y, _: (scores - y) ** 2,
    "hinge": lambda scores, y, _: np.maximum(0.0, 1.0 - y * scores),
    "log_loss": lambda scores, y, _: np.logaddexp(0.0, -y * scores),
    "squared_hinge": lambda scores, y, _: np.maximum(0.0, 1.0 - y * scores) ** 2,
    "modified_huber": lambda scores, y, _: _flattened(np.maximum(0.0, 1.0 - y * scores), 2.0),
    "huber": lambda scores, y, epsilon: _flattened(np.abs(scores - y), epsilon) / 2,
    "epsilon_insensitive": lambda scores, y, epsilon: np.maximum(0.0, np.abs(scores - y) - epsilon),
    "squared_epsilon_insensitive": lambda scores, y, epsilon: np.maximum(0.0, np.abs(scores - y) - epsilon) ** 2,
}
LOSS_NAMES = {name: f"mean {name.replace('_', ' ')} loss" for name in _LOSSES} | {
    "squared_error": "mean squared residual",
    "log_loss": "mean log loss",
}
LOSS_UNITS = {
    **dict.fromkeys(("hinge", "squared_hinge", "modified_huber"), "no unit"),
    **dict.fromkeys(("squared_error", "huber", "squared_epsilon_insensitive"), "label units squared"),
    **{"log_loss": "nats", "epsilon_insensitive": "label units"},
}
EPSILON = 0.1  # that of the estimators
STEPS = 50  # of a search, each of which leaves two thirds


def losses_of(
    X: Floats,
    y: Floats,
    coefficients: Floats,
    intercepts: Floats,
    loss: str = "squared_error",
    epsilon: float = EPSILON,
) -> Floats:
    """Return the mean losses, float64 [models], of linear models.

    Parameters
    ----------
    X : float64 array [rows, n]
    y : float64 array [rows]
        -1 and 1 for losses of margins.
    coefficients : float64 array [models, n]
    intercepts : float64 array [models]
    loss : str, default="squared_error"
        "squared_error" is the squared residual without the factor 1/2; the others are scikit-learn's.
    epsilon : float, default=EPSILON
        Of the losses that have one.
    """
    measure = _LOSSES[loss]
    return _means(X, y, coefficients, intercepts, lambda scores, labels: measure(scores, labels, epsilon))


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


def constant_loss(y: Floats, loss: str = "squared_error", epsilon: float = EPSILON) -> float:
    """Return the least mean loss of a model with one output for all rows."""
    if loss == "squared_error":
        return float(np.var(y))
    if loss not in ("hinge", "log_loss"):
        return _least_constant(y, lambda score: float(_LOSSES[loss](np.array(score), y, epsilon).mean()))
    shares: NDArray[np.float64] = np.array([np.mean(y < 0), np.mean(y > 0)])
    if loss == "hinge":
        return float(2 * shares.min())
    return float(-np.sum(shares * np.log(shares, where=shares > 0, out=np.zeros(2))))


def _flattened(size: Floats, reach: float) -> Floats:
    """Return squares of sizes up to a reach, and beyond it their tangent there."""
    inside = np.minimum(size, reach)
    return np.asarray(inside * (2.0 * size - inside))


def _least_constant(y: Floats, mean_loss: Callable[[float], float]) -> float:
    """Return the least value of a convex function of a score within the range of y."""
    low, high = float(np.min(y)), float(np.max(y))
    for _ in range(STEPS):
        third = (high - low) / 3
        if mean_loss(low + third) <= mean_loss(high - third):
            high -= third
        else:
            low += third
    return mean_loss((low + high) / 2)
