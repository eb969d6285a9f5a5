"""Models at their optimum, against minimisers of scipy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bitlane.encoded.coded_rows import CodedArray, CodeScale
from bitlane.solvers.centered import solve_centered
from bitlane.solvers.linear_models import linear_models

LOSSES = ("log_loss", "squared_error")


def random_rows(rng: np.random.Generator, rows: int, columns: int) -> CodedArray:
    mixed = rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))
    codes = np.clip(np.rint(mixed / np.abs(mixed).max(axis=0) * 127), -128, 127).astype(np.int8)
    unit = 2.0 ** rng.integers(-9, -5, columns).astype(float)
    return CodedArray(codes, CodeScale(rng.normal(size=columns), unit))


def random_labels(rng: np.random.Generator, rows: CodedArray, loss: str) -> np.ndarray:
    values = rows.scale.values(rows.codes)
    scores = values @ rng.standard_normal(rows.shape[1])
    scores = (scores - scores.mean()) / scores.std() + rng.logistic(size=len(scores))
    return scores if loss == "squared_error" else np.where(scores > 0, 1.0, -1.0)


def textbook(loss: str, values: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float, intercept: bool):
    """Objective and gradient in float64."""

    def of(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        w, b = parameters[: values.shape[1]], parameters[-1] if intercept else 0.0
        z = values @ w + b
        if loss == "log_loss":
            each, slope = np.logaddexp(0, -y * z), -y / (1 + np.exp(y * z))
        else:
            each, slope = (z - y) ** 2 / 2, z - y
        share = weights / weights.sum()
        gradient = values.T @ (share * slope) + ridge * w
        return share @ each + ridge / 2 * w @ w, np.append(gradient, (share * slope).sum()) if intercept else gradient

    return of


def optimum(loss: str, rows: CodedArray, y: np.ndarray, weights: np.ndarray, ridge: float, intercept: bool) -> float:
    of = textbook(loss, rows.scale.values(rows.codes), y, weights, ridge, intercept)
    start = np.zeros(rows.shape[1] + intercept)
    found = minimize(of, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    return float(found.fun)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_the_optimum_of_a_minimiser(loss: str, intercept: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, int(rng.integers(60, 400)), int(rng.integers(1, 8)))
    y = random_labels(rng, rows, loss)
    weights, ridge = rng.random(len(y)) + 0.1, float(10 ** rng.uniform(-3, 0))
    fit = solve_centered(rows, linear_models(y, loss, ridge, 0.0, weights, fit_intercept=intercept), tol=1e-6)
    of = textbook(loss, rows.scale.values(rows.codes), y, weights, ridge, intercept)
    own = of(np.append(fit.coefficients[0], fit.intercepts[0] if intercept else []))[0]
    assert fit.converged.all()
    assert own == pytest.approx(fit.objectives[0], rel=1e-5)
    assert own <= optimum(loss, rows, y, weights, ridge, intercept) * (1 + 3e-6) + 1e-12


def test_many_models_are_single_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 500, 6)
    targets = np.c_[[random_labels(rng, rows, "log_loss") for _ in range(3)]].T
    folds = (rng.integers(0, 4, 500)[:, None] != np.arange(4)).astype(float)
    which = np.array([(t, f, a) for t in range(3) for f in range(4) for a in (1e-3, 1e-1)])
    many = linear_models(targets, "log_loss", which[:, 2], 0.0, folds, which[:, 0], which[:, 1])
    fit = solve_centered(rows, many, tol=1e-8)
    for k, (target, fold, alpha) in enumerate(which):
        inside = folds[:, int(fold)] > 0
        part = CodedArray(np.ascontiguousarray(rows.codes[inside]), rows.scale)
        alone = solve_centered(part, linear_models(targets[inside, int(target)], "log_loss", alpha), tol=1e-8)
        assert fit.objectives[k] == pytest.approx(alone.objectives[0], rel=1e-6)
        assert np.allclose(fit.coefficients[k], alone.coefficients[0], rtol=1e-2, atol=1e-3)
