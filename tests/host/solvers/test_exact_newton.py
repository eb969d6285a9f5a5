"""Newton's method on exact rows, against minimisers and sums in float64."""

from itertools import pairwise

import numpy as np
import pytest

from bitlane.solvers import exact_newton as newton
from bitlane.solvers import standard_rows
from bitlane.solvers.exact_sums import ExactSums
from bitlane.solvers.problem import Problem
from bitlane.solvers.standard_rows import StandardRows, spread_of

minimize = pytest.importorskip("scipy.optimize").minimize


def of_loss(loss, margin):
    """Losses, slopes and second derivatives by the margin, float64."""
    if loss == "log_loss":
        wrong = 1 / (1 + np.exp(np.clip(margin, -700, 700)))
        return np.logaddexp(0, -margin), -wrong, wrong * (1 - wrong)
    short = np.maximum(1 - margin, 0)
    return short**2, -2 * short, 2.0 * (short > 0)


def table(random, rows, n):
    """Columns of other means and scales, in a type of numbers; often one is constant, and often means are near 0."""
    X = random.normal(size=(rows, n)) * 10.0 ** random.uniform(-1, 1, n) + random.choice([0.05, 5]) * random.normal(
        size=n
    )
    if random.integers(2):
        X[:, random.integers(n)] = 3
    return (X * 20).astype(np.int32) if random.integers(3) == 0 else X.astype(random.choice([np.float32, np.float64]))


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_sums_are_those_of_float64(loss, seed, monkeypatch):
    random = np.random.default_rng(seed)
    rows, n, targets, sets = (int(random.integers(low, high)) for low, high in ((20, 300), (2, 8), (1, 4), (1, 4)))
    monkeypatch.setattr(standard_rows, "TILE_VALUES", int(random.integers(1, 3000)))
    X, intercept = table(random, rows, n), bool(random.integers(2))
    y = random.choice([-1, 1], (rows, targets))
    weights = [None, random.uniform(0, 2, (rows, targets))][random.integers(2)]
    ends = [0, *sorted(random.integers(0, rows, 2)), rows]
    standard = StandardRows(X, spread_of(X), ends, int(random.choice([0, 1 << 20])))
    singles = None if weights is None else weights.astype(np.float32)
    sums = ExactSums(standard, y.astype(np.float32), loss, singles, intercept)
    points = random.normal(size=(sets, targets, standard.shape[1] + intercept))
    found, (coef, constant) = sums.read(points), standard.in_user_units(points, intercept)
    assert sums.reads == 1 and not coef[..., X.std(axis=0) == 0].any()
    columns = X[:, standard.active] / standard.spread
    if intercept:
        columns = np.c_[columns - standard.mean / standard.spread, np.ones(rows)]
    for part, (first, end) in enumerate(pairwise(ends)):
        span = slice(first, end)
        for s, k in np.ndindex(sets, targets):
            label, of_row = y[span, k], 1.0 if weights is None else weights[span, k]
            losses, slopes, bends = of_loss(loss, label * (X[span] @ coef[s, k] + constant[s, k]))
            size = 1e-4 * rows
            np.testing.assert_allclose(found.values[part, s, k], (of_row * losses).sum(), rtol=1e-4, atol=size)
            gradient = (of_row * label * slopes) @ columns[span]
            np.testing.assert_allclose(found.gradients[part, s, k], gradient, rtol=1e-3, atol=10 * size)
            if loss == "log_loss":  # a row at the corner of the other loss may round to either side
                hessian = (columns[span].T * (of_row * bends)) @ columns[span]
                np.testing.assert_allclose(found.hessians[part, s, k], hessian, rtol=1e-3, atol=10 * size)
    again = sums.read(points, hessians=False)
    assert again.hessians is None
    np.testing.assert_array_equal(again.gradients, found.gradients)


def test_lost_curvature_is_of_the_rows_that_lose_half_of_it(seed, monkeypatch):
    random = np.random.default_rng(seed)
    rows, targets, others = (int(random.integers(low, high)) for low, high in ((20, 300), (1, 4), (1, 3)))
    monkeypatch.setattr(standard_rows, "TILE_VALUES", int(random.integers(1, 3000)))
    X = table(random, rows, int(random.integers(2, 8)))
    y = random.choice([-1, 1], (rows, targets))
    weights = [None, random.uniform(0, 2, (rows, targets))][random.integers(2)]
    standard = StandardRows(X, spread_of(X))
    sums = ExactSums(
        standard, y.astype(np.float32), "log_loss", None if weights is None else weights.astype(np.float32)
    )
    points = random.normal(size=(1 + others, targets, standard.shape[1] + 1))
    lost = sums.lost_curvature(points[0], list(points[1:]))
    coef, constant = standard.in_user_units(points, fit_intercept=True)
    columns = np.c_[(X[:, standard.active] - standard.mean) / standard.spread, np.ones(rows)]
    for k in range(targets):
        bends = of_loss("log_loss", y[:, k, None] * (X @ coef[:, k].T + constant[:, k]))[2]
        kept = bends[:, 1:].min(axis=1) / bends[:, 0]
        of_rows = bends[:, 0] if weights is None else bends[:, 0] * weights[:, k]
        sure = np.abs(kept - 0.5) > 1e-3  # rounding may take either side for others
        at_least = (columns.T * (of_rows * (kept < 0.5) * sure)) @ columns
        unsure = np.diagonal((columns.T * (of_rows * ~sure)) @ columns)
        away = np.abs(lost[k] - at_least)
        assert (away <= 1e-3 * np.abs(at_least) + 1e-4 * rows + np.sqrt(np.outer(unsure, unsure))).all()


def objective(problem, k, point):
    """The objective of a target in float64, and its gradient, at coefficients and an intercept."""
    weights = np.ones(len(problem.table)) if problem.weights is None else problem.weights[:, k]
    columns, label = np.c_[problem.table, np.full(len(weights), problem.fit_intercept)], problem.targets[:, k]
    losses, slopes, _ = of_loss(problem.loss, label * (columns @ point))
    ridge = np.append(np.full(problem.table.shape[1], problem.alpha), 0)
    value = np.average(losses, weights=weights) + 0.5 * (ridge * point**2).sum()
    return value, (weights * label * slopes) @ columns / weights.sum() + ridge * point


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_the_optimum_is_reached_from_samples(loss, seed, monkeypatch):
    """Of tables of which samples are taken, with rows in an order."""
    random = np.random.default_rng(seed)
    monkeypatch.setattr(newton, "LEAST_ROWS", 32)
    rows, n, targets = int(random.integers(600, 5000)), int(random.integers(1, 6)), int(random.integers(1, 4))
    X = random.normal(size=(rows, n)) * 10.0 ** random.uniform(-0.5, 0.5, n) + random.normal(size=n)
    scores = (X - X.mean(axis=0)) @ random.normal(size=(n, targets)) * random.uniform(0.3, 2)
    y = np.where(scores + random.logistic(size=(rows, targets)) > random.choice([0.0, 3.0]), 1.0, -1.0)
    y[:2] = [[1.0], [-1.0]]
    order = np.argsort([X[:, 0], y[:, 0], random.random(rows)][random.integers(3)], kind="stable")
    weights = [None, random.uniform(0.1, 2, (rows, targets))][random.integers(2)]
    problem = Problem(
        X[order], y[order], loss, float(random.choice([0.0, 1e-3, 1e-1])), 0.0, weights, bool(random.integers(2))
    )
    found = newton.exact_newton(problem)
    assert found.converged.all() and found.passes <= 12
    for k in range(targets):
        ours = np.append(found.coef[k], found.intercept[k])
        value = objective(problem, k, ours)[0]
        end = minimize(lambda point, k=k: objective(problem, k, point), ours, jac=True, method="BFGS")
        np.testing.assert_allclose(found.objective[k], value, rtol=1e-5)
        assert value <= end.fun * (1 + 2 * problem.tol)


def test_a_sample_that_misleads_costs_a_read(seed, monkeypatch):
    """The labels of the rows in the samples are those of all rows, turned round."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(20_000, 3)), np.ones((20_000, 1))
    y[X @ [1.0, -1.0, 2.0] + random.logistic(size=len(X)) < 0] = -1
    for chosen in newton.samples(len(X), 4):
        y[chosen] *= -1
    problem = Problem(X, y, "log_loss", 1e-3)
    found = newton.exact_newton(problem)
    end = minimize(lambda point: objective(problem, 0, point), np.zeros(4), jac=True, method="BFGS")
    assert found.objective[0] <= end.fun * (1 + 2 * problem.tol)


def test_a_gap_that_says_too_little_is_not_believed():
    """One row of large values: in some of these tables the Newton decrement is far below what is left."""
    told = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows, n = int(random.integers(60, 1000)), int(random.integers(1, 9))
        X = random.normal(size=(rows, n)) * (random.random((rows, n)) < 0.15)
        X[random.integers(rows)] = 10.0 ** random.uniform(2, 5) * random.normal(size=n)
        noisy = X / X.std(axis=0) @ random.normal(size=n) + random.logistic(size=rows)
        problem = Problem(X, np.where(noisy > np.median(noisy), 1.0, -1.0)[:, None], "log_loss", 1e-4)
        found = newton.exact_newton(problem)
        if not found.converged[0]:
            told += 1
            continue
        size = np.append(np.where(X.std(axis=0) > 0, X.std(axis=0), 1), 1)  # of the units that the minimiser likes

        def scaled(point, problem=problem, size=size):
            value, gradient = objective(problem, 0, point / size)
            return value, gradient / size

        ours = np.append(found.coef[0], found.intercept[0]) * size
        ends = [minimize(scaled, begin, jac=True, method="L-BFGS-B") for begin in (ours, 0 * ours)]
        assert found.objective[0] <= min(end.fun for end in ends) * (1 + 2 * problem.tol), seed
    assert 0 < told < 30


def test_rare_values_outside_the_rows_that_are_looked_at_count(seed):
    random = np.random.default_rng(seed)
    X = np.zeros((5_000, 3))
    outside = np.setdiff1d(np.arange(5_000), np.arange(0, 5_000, -(-5_000 // standard_rows.LOOKED_AT)))
    X[random.choice(outside, 9, replace=False), 0] = 1
    X[:, 1], X[:, 2] = random.normal(size=5_000), 1e6 + 0.1
    mean, spread = spread_of(X)
    np.testing.assert_allclose(spread[[0, 2]], [X[:, 0].std(), 0], rtol=1e-9)
    np.testing.assert_allclose([mean[1], spread[1]], [0, 1], atol=0.2)
    assert StandardRows(X, spread_of(X)).active.tolist() == [0, 1]
