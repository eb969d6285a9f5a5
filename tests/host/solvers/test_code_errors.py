"""Least squares from codes of skewed columns: their means are off those of the values, and intercepts with them."""

import warnings

import numpy as np
import pytest

from bitlane import EncodedTable
from bitlane.solvers import by_gram, code_errors
from bitlane.solvers.by_gram import solve_by_gram
from bitlane.solvers.problem import Problem

SKEWED = {
    "log-normal": lambda X: np.exp(2 * X),
    "fourth powers": lambda X: X**4,
    "steps": lambda X: np.exp(2 * np.floor(X)),
    "mirrored": lambda X: -np.exp(2 * X),
    "few large": lambda X: np.where(np.abs(X) > 2, 50 * X, 0.3 * np.abs(X)),
}


def skewed_problem(random, kind):
    """A table of a kind, as floats or codes of 16 bits, weights that know its values, few or none, and its targets."""
    rows, n = int(np.exp(random.uniform(4, 9.5))), int(random.integers(1, 12))
    X = SKEWED[kind](random.normal(size=(rows, n)))
    y = (X - X.mean(0)) / X.std(0) @ random.normal(size=(n, 2)) + random.normal(size=(rows, 2))
    y = y + 10.0 ** random.uniform(-2, 2)
    rare = (np.arange(rows) < max(50, rows // 200)).astype(float)  # rows that count
    weights = [None, 0.1 + 2 * (X[:, 0] > np.median(X[:, 0])), random.permutation(rare)][random.integers(3)]
    weights = None if weights is None else np.tile(weights[:, None], 2)
    alpha, tol = float(random.choice([0, 1e-3, 0.1])), float(random.choice([1e-3, 1e-4]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = X if random.integers(2) else EncodedTable.of(X, bits=16)
    return Problem(table, y, "squared_error", alpha, tol=tol, fit_intercept=bool(random.integers(4)), weights=weights)


def excess(problem, found, k):
    """What a model is above the optimum of the values, over it: float64."""
    X, y = np.asarray(problem.table, np.float64), problem.targets[:, k]
    weights = np.ones(len(X)) if problem.weights is None else problem.weights[:, k]
    A = np.column_stack([X, np.full(len(X), float(problem.fit_intercept))])
    root, size = np.sqrt(weights / weights.sum()), np.append(X.std(axis=0), 1.0)
    ridge = np.append(np.full(X.shape[1], problem.ridge), 0.0)
    rows = np.vstack([A * root[:, None], np.diag(np.sqrt(ridge))]) / size
    best = np.linalg.lstsq(rows, np.append(y * root, np.zeros(len(size))), rcond=1e-12)[0] / size
    values = [
        np.sum((root * (y - A @ v)) ** 2) + ridge @ v**2 for v in (np.append(found.coef[k], found.intercept[k]), best)
    ]
    return values[0] / values[1] - 1


@pytest.mark.parametrize("kind", SKEWED)
@pytest.mark.parametrize(("values", "factor"), [(code_errors.VALUES, 4), (1 << 12, 10)])
def test_intercepts_are_those_of_the_values(seed, values, factor, kind, monkeypatch):
    """A fit that says so is near the optimum, with a sample of all rows, and to a larger factor of 1,024."""
    monkeypatch.setattr(by_gram, "codes_are_quicker", lambda rows, columns: True)
    monkeypatch.setattr(code_errors, "VALUES", values)
    random = np.random.default_rng(seed)
    for _ in range(5):
        problem = skewed_problem(random, kind)
        found = solve_by_gram(problem)
        assert found.converged.all()
        for k in range(2):
            assert excess(problem, found, k) <= factor * problem.tol
