"""The optimum of linear models with log loss or squared hinge and an L2 penalty, in float64."""

from __future__ import annotations

import numpy as np


def objective(X, y, weights, loss: str, alpha: float, coef, intercept: float) -> float:
    """Return the mean loss of rows with labels that are true or false, and the L2 penalty."""
    margins = np.where(y, 1, -1) * (X.astype(float) @ coef + intercept)
    each = np.logaddexp(0, -margins) if loss == "log_loss" else np.maximum(1 - margins, 0) ** 2
    return float(each @ weights / weights.sum() + alpha / 2 * coef @ coef)


def optimum(X, y, weights, loss: str, alpha: float, with_intercept: bool) -> float:
    """Return the least objective, by Newton's method with damping on standardised columns."""
    size = np.maximum(X.astype(float).std(axis=0), 1e-9)
    shift = X.astype(float).mean(axis=0) if with_intercept else 0.0
    Z = np.c_[(X - shift) / size, np.full(len(X), float(with_intercept))]
    ridge, share, s = np.append(alpha / size**2, 0.0), weights / weights.sum(), np.where(y, 1.0, -1.0)

    def at(v):
        margins = s * (Z @ v)
        p = 1 / (1 + np.exp(np.clip(margins, -700, 700)))
        lacking = np.maximum(1 - margins, 0)
        each, slope, curvature = (
            (np.logaddexp(0, -margins), -s * p, p * (1 - p))
            if loss == "log_loss"
            else (lacking**2, -2 * s * lacking, 2.0 * (lacking > 0))
        )
        hessian = (Z * (share * curvature)[:, None]).T @ Z + np.diag(ridge)
        return share @ each + ridge @ v**2 / 2, Z.T @ (share * slope) + ridge * v, hessian

    v, damping = np.zeros(Z.shape[1]), 1e-9
    value, gradient, hessian = at(v)
    for _ in range(400):
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian) + 1e-12), -gradient)
        tried = at(v + step)
        if tried[0] <= value:
            gain, v, damping = value - tried[0], v + step, max(damping / 10, 1e-13)
            value, gradient, hessian = tried
            if gain <= 1e-14 * value:
                break
        else:
            damping *= 10
            if damping > 1e12:
                break
    return float(value)
