"""Least squares of tables of floats: the optimum of the rows, whatever the products that find it."""

import numpy as np
import pytest
from tests.host.estimators.test_linear_kinds import KINDS, table

from bitlane.errors import DataError
from bitlane.solvers import by_gram
from bitlane.solvers.by_gram import solve_by_gram
from bitlane.solvers.problem import Problem

ROUNDING = 1e-8  # of the squares of a target, which a Gram matrix may lose beside an outlier
SEEN = 1e-6  # of the largest singular value: a Gram matrix has the squares, and may not see smaller ones
moments = by_gram.float_moments


def random_problem(random, kind, scales):
    """A table of a kind, sorted or not, in other units or not, with targets of any share of noise."""
    rows, n, count = int(np.exp(random.uniform(2.5, 8))), int(random.integers(1, 40)), int(random.integers(1, 3))
    X, score = table(random, kind, rows, n)
    if scales:
        X = X * 10.0 ** random.uniform(-scales, scales, X.shape[1])
    X = (np.sort(X, axis=0) if random.integers(5) == 0 else X).astype(random.choice([np.float32, np.float64]))
    y = np.tile((score / (score.std() or 1) * 10.0 ** random.uniform(-3, 3))[:, None], count)
    y += random.normal(size=y.shape) * 10.0 ** random.uniform(-4, 1) + random.normal() * 10.0 ** random.uniform(-2, 5)
    weights = None if random.integers(2) else np.tile(random.uniform(0.1, 2, (rows, 1)), count)
    alpha = float(random.choice([0, 10.0 ** random.uniform(-8, 0)]))
    tol, intercept = 10.0 ** random.uniform(-6, -2), bool(random.integers(4))
    return Problem(X, y, "squared_error", alpha, tol=tol, fit_intercept=intercept, weights=weights)


def optimum_of(problem, k, coef):
    """The least objective that a Gram matrix can see, that of coefficients, and the squares of the target."""
    X, y = problem.table.astype(np.float64), problem.targets[:, k]
    of_rows = np.ones(len(X)) if problem.weights is None else problem.weights[:, k]
    root = np.sqrt(of_rows / of_rows.sum())
    if problem.fit_intercept:
        X, y = X - root**2 @ X, y - root**2 @ y
    A, b = X * root[:, None], y * root
    size = np.sqrt((A**2).sum(axis=0))
    size[size == 0] = 1
    penalised = np.vstack([A / size, np.diag(np.sqrt(problem.ridge) / size)]) if problem.ridge else A / size
    best = np.linalg.lstsq(penalised, np.append(b, np.zeros(len(penalised) - len(b))), rcond=SEEN)[0] / size
    values = [0.5 * (((b - A @ v) ** 2).sum() + problem.ridge * (v**2).sum()) for v in (best, coef)]
    return *values, (b**2).sum()


@pytest.mark.parametrize("scales", [0, 6])
@pytest.mark.parametrize("singles", [0, 1 << 40])
def test_a_solution_is_the_optimum_or_its_distance_is_told(singles, scales, seed, monkeypatch):
    monkeypatch.setattr(by_gram, "SINGLES", singles)
    random = np.random.default_rng(seed)
    for kind in KINDS:
        problem = random_problem(random, kind, scales)
        found = solve_by_gram(problem)
        for k in range(problem.targets.shape[1]):
            best, ours, squares = optimum_of(problem, k, found.coef[k])
            left = 2 * problem.tol * best + ROUNDING * squares
            if found.converged[k]:
                assert ours <= best + left, (kind, k)
                assert abs(found.objective[k] - ours) <= left, (kind, k)


def test_float32_products_are_used_where_they_suffice(monkeypatch):
    monkeypatch.setattr(by_gram, "SINGLES", 0)
    random, kinds = np.random.default_rng(0), []
    monkeypatch.setattr(by_gram, "float_moments", lambda *a, **k: kinds.append(k["dtype"]) or moments(*a, **k))
    X = random.normal(size=(3_000, 8)) + 3
    noisy = X @ random.normal(size=8) + random.normal(size=3_000)
    assert solve_by_gram(Problem(X, noisy[:, None], "squared_error", 0.0)).passes == 1
    X[:, 7] = X[:, 0] + X[:, 1]  # their coefficients would be rounding
    assert solve_by_gram(Problem(X, noisy[:, None], "squared_error", 0.0)).passes == 2
    assert (
        solve_by_gram(Problem(X[:, :7], X[:, :1] * 2, "squared_error", 0.0)).passes == 2
    )  # no noise, no digit to lose
    assert kinds == [np.float32, np.float32, np.float64, np.float32, np.float64]


@pytest.mark.parametrize("singles", [0, 1 << 40])
def test_targets_without_noise_are_found_without_a_warning(singles, seed, monkeypatch, recwarn):
    monkeypatch.setattr(by_gram, "SINGLES", singles)
    random = np.random.default_rng(seed)
    for kind in KINDS:
        X, _ = table(random, kind, int(random.integers(20, 2_000)), int(random.integers(1, 15)))
        y = X @ random.normal(size=X.shape[1]) + 3
        found = solve_by_gram(Problem(X, y[:, None], "squared_error", 0.0))
        assert found.converged.all(), kind
        assert ((y - X @ found.coef[0] - found.intercept[0]) ** 2).sum() <= 1e-9 * ((y - y.mean()) ** 2).sum(), kind
    assert not recwarn


def test_squares_above_the_largest_float64_are_refused(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(50, 3))
    X[:, 1] *= 1e160
    with pytest.raises(DataError, match=r"^column 1 has values whose squares are above the largest float64: scale it$"):
        solve_by_gram(Problem(X, random.normal(size=(50, 1)), "squared_error", 0.0))
