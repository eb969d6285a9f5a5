"""An objective is at its optimum as far as the tolerance asks, or a warning says that it may not be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.helpers.margin_optima import objective, optimum

from bitlane import LinearClassifier

pytest.importorskip("sklearn")
FLOOR = 1e-3  # of the loss of a constant model: what a tolerance counts from at least


def hard_table(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a table, often of columns that are nearly combinations of others, and labels, some nearly separable."""
    rows, columns, kind = int(rng.choice([300, 1000])), int(rng.integers(2, 30)), int(rng.choice([0, 1, 1, 2, 2, 3, 4]))
    factors = rng.normal(size=(rows, max(1, columns // 3)))
    X = factors @ rng.normal(size=(factors.shape[1], columns))
    if kind == 0:
        X = rng.normal(size=(rows, columns))
    elif kind == 1:
        X += 10 ** rng.uniform(-4, -1) * rng.normal(size=(rows, columns))
    elif kind == 2:
        X = np.rint(X * 1000 + rng.normal(size=(rows, columns)) * 10 ** rng.uniform(0, 2)).astype(np.int32)
    elif kind == 3:
        X = (rng.random((rows, columns)) < rng.uniform(0.005, 0.5, columns)) * 1.0
    else:
        X = rng.integers(0, 255, (rows, columns)).astype(np.uint8)
    scores = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9) @ rng.normal(size=columns)
    scores = scores / max(scores.std(), 1e-9) * rng.choice([0.3, 1, 5]) + rng.logistic(size=rows) * rng.choice([0.1, 1])
    return X, scores > np.quantile(scores, 1 - rng.choice([0.5, 0.05, 0.01]))


@pytest.mark.parametrize("solver", ["auto", "centered"])
@pytest.mark.parametrize("_", range(12))
def test_no_objective_is_far_above_its_optimum_without_a_warning(seed, solver, _):
    rng = np.random.default_rng([seed, _])
    X, y = hard_table(rng)
    loss, tol = str(rng.choice(["log_loss", "squared_hinge"])), 10.0 ** -int(rng.integers(3, 6))
    alpha = float(X.var(axis=0).mean() * 10.0 ** rng.choice([-9, -7, -5, -3, -2]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LinearClassifier(loss=loss, alpha=alpha, solver=solver, tol=tol).fit(X, y)
    every = np.ones(len(X))
    found = objective(X, y, every, loss, alpha, model.coef_[0], float(model.intercept_[0]))
    least = optimum(X, y, every, loss, alpha, True)
    constant = np.log(2) if loss == "log_loss" else 1.0
    missed = found - least > 1.5 * tol * max(least, FLOOR * constant)
    assert not missed or any("the solver ended" in str(each.message) for each in told)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "hinge"])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_ordinary_tables_have_no_warning(seed, loss, penalty):
    """Standardised one-hot columns, which depend on each other, beside a number and its copy."""
    rng = np.random.default_rng(seed)
    rows = 1000
    fields = [np.eye(4)[rng.choice(4, rows, p=[0.6, 0.3, 0.08, 0.02])] for _ in range(3)]
    number = rng.normal(size=(rows, 1))
    X = np.hstack([*fields, number, number, rng.normal(size=(rows, 3))])
    y = X @ rng.normal(size=X.shape[1]) + rng.logistic(size=rows) > 0.5
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    model = LinearClassifier(loss=loss, penalty=penalty, alpha=1e-3, tol=1e-3, solver="centered").fit(X, y)
    assert model.solution_.converged.all()
