"""Least squares with L1 from moments: scikit-learn's optima, and gaps that no optimum is below."""

import numpy as np
import pytest

from bitlane.encoded.coded_rows import Floats
from bitlane.solvers.elastic_net import elastic_net, relative_gaps
from bitlane.solvers.least_squares import CenteredMoments
from bitlane.solvers.moments import float_moments

linear_model = pytest.importorskip("sklearn.linear_model")


class Task:
    """A table with targets, weights and a penalty, and scikit-learn's solution [m] for each target."""

    def __init__(self, random: np.random.Generator):
        rows, n, targets = int(random.integers(20, 300)), int(random.integers(1, 40)), int(random.integers(1, 4))
        X = random.normal(size=(rows, n)) @ (np.eye(n) + 0.5 * random.normal(size=(n, n)) / np.sqrt(n))
        self.X = X * 10.0 ** random.uniform(-1, 1, n) + random.normal(size=n)
        self.X[:, -1] = random.choice([self.X[0, -1], self.X[0, 0]]) if n > 1 else self.X[:, -1]
        self.Y = self.X @ random.normal(size=(n, targets)) + random.normal(size=(rows, targets)) + 10
        self.weights, self.intercept = random.uniform(0.1, 2, rows), bool(random.integers(2))
        moments = float_moments(self.X, self.Y, self.weights)
        self.centered = CenteredMoments.of(moments, self.intercept)
        largest = np.abs(self.centered.products).max() / moments.weight
        share = float(random.choice([1.0, 0.5, 0.05]))
        strength = float(largest * 10.0 ** random.uniform(-2.5, 0.2))
        self.lasso, self.ridge = strength * share, strength * (1 - share)

    def objectives(self, v: Floats, b: Floats) -> Floats:
        errors = np.average((self.X @ v + b - self.Y) ** 2, axis=0, weights=self.weights)
        return np.asarray(errors / 2 + self.lasso * np.abs(v).sum(axis=0) + self.ridge / 2 * (v**2).sum(axis=0))

    def best(self) -> Floats:
        strength = self.lasso + self.ridge
        model = linear_model.ElasticNet(
            strength, l1_ratio=self.lasso / strength, fit_intercept=self.intercept, tol=1e-12, max_iter=20_000
        )
        found = []
        for y in self.Y.T:
            model.fit(self.X, y, self.weights)
            found.append(self.objectives(model.coef_[:, None], np.array([model.intercept_]))[len(found)])
        return np.array(found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_optima_are_scikit_learns(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(2):
        task, tol = Task(random), float(10.0 ** random.integers(-9, -2))
        found, gaps = elastic_net(task.centered, task.lasso, task.ridge, tol)
        assert (gaps <= tol).all()
        ours, best = task.objectives(found.coefficients, found.intercepts), task.best()
        assert (ours <= best * (1 + tol + 1e-8)).all()
        errors = np.average(
            (task.X @ found.coefficients + found.intercepts - task.Y) ** 2, axis=0, weights=task.weights
        )
        np.testing.assert_allclose(found.squared_errors, errors, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_optimum_is_below_a_gap(seed: int) -> None:
    random = np.random.default_rng(seed)
    task = Task(random)
    best = task.best()
    found, _ = elastic_net(task.centered, task.lasso, task.ridge, 1e-10)
    for size in (0.0, 0.01, 1.0):
        v = found.coefficients * (1 + size * random.normal(size=found.coefficients.shape))
        v[task.centered.constant] = 0
        gaps = relative_gaps(task.centered, v, task.lasso, task.ridge)
        objectives = task.objectives(v, task.centered.target_mean - task.centered.mean @ v)
        assert (objectives * (1 - gaps) <= best * (1 + 1e-9)).all()
