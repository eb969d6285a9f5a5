"""Fits of ordinary tables of many kinds, as floats or encoded, reach the optimum, or warn."""

import warnings

import numpy as np
import pytest

from bitlane import EncodedTable, LinearClassifier, LinearRegressor
from bitlane.support.sklearn_compat import ConvergenceWarning

minimize = pytest.importorskip("scipy.optimize").minimize

KINDS = ("normal", "outlier", "rare", "collinear", "scales", "one-hot", "log-normal", "offset", "mostly-0")


def table(random, kind, rows, n):
    """A table of a kind, and a score of its rows that it has to learn."""
    X = random.normal(size=(rows, n))
    if kind == "outlier":
        X[0] *= 1000
    if kind == "collinear":
        X = np.hstack([X, X[:, :1] + 1e-3 * random.normal(size=(rows, 1))])
    if kind == "scales":
        X *= 10.0 ** random.uniform(-4, 4, n)
    if kind == "one-hot":
        X = (random.random((rows, n)) < 10.0 ** random.uniform(-3, -0.3, n)).astype(float)
        X[0] = 1 - X[1]
    if kind == "log-normal":
        X = np.exp(2 * X)
    if kind == "mostly-0":  # with one row of large values
        X *= random.random((rows, n)) < 0.15
        X[0] = 10.0 ** random.uniform(1, 5) * random.normal(size=n)
    if kind == "offset":
        X = X + 1e4 * random.normal(size=n)
    return X, (X - X.mean(0)) / X.std(0) @ random.normal(size=X.shape[1])


def encoded(X, bits):
    """The table with so many bits a value; columns with outliers are clipped, which it would tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EncodedTable.of(X, bits=bits)


def losses(loss, scores, labels):
    """Losses [rows] and their slopes, float64."""
    if loss == "log_loss":
        return np.logaddexp(0, -labels * scores), -labels / (1 + np.exp(np.clip(labels * scores, -700, 700)))
    if loss == "squared_hinge":
        short = np.maximum(1 - labels * scores, 0)
        return short**2, -2 * labels * short
    return 0.5 * (scores - labels) ** 2, scores - labels


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_reached_or_its_distance_is_told(seed, kind):
    random = np.random.default_rng(seed)
    rows, loss = int(random.integers(30, 3000)), str(random.choice(["log_loss", "squared_hinge", "squared_error"]))
    X, score = table(random, kind, rows, int(random.integers(1, 20)))
    noisy = score + random.logistic(size=rows)
    labels = (
        noisy
        if loss == "squared_error"
        else np.where(noisy > np.quantile(score, 0.97 if kind == "rare" else 0.5), 1.0, -1.0)
    )
    labels[:2] = 1.0, -1.0
    weights = [np.ones(rows), random.uniform(0.1, 2, rows)][random.integers(2)]
    alpha, tol = float(random.choice([1e-5, 1e-3, 1e-1])), float(random.choice([1e-3, 1e-4]))
    kind_of_model = LinearRegressor if loss == "squared_error" else LinearClassifier
    solver = str(random.choice(["auto", "centered"]))
    given = X if random.integers(2) else encoded(X, int(random.choice([2, 6, 8, 10, 16])))
    X = np.asarray(given)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = kind_of_model(loss=loss, alpha=alpha, tol=tol, solver=solver).fit(given, labels, weights)
    mean, spread = X.mean(0), np.where(np.ptp(X, axis=0) > 0, X.std(0), 1)
    standard, ridge = (X - mean) / spread, np.append(alpha / spread**2, 0)

    def objective(point):
        loss_of_rows, slope = losses(loss, standard @ point[:-1] + point[-1], labels)
        slope = weights * slope / weights.sum()
        value = np.average(loss_of_rows, weights=weights) + 0.5 * (ridge * point**2).sum()
        return value, np.append(slope @ standard, slope.sum()) + ridge * point

    coef = model.coef_.reshape(-1)
    ours = np.append(coef * spread, model.intercept_[0] + mean @ coef)
    nothing = np.zeros(len(ours))
    ends = [
        minimize(objective, each, jac=True, method="L-BFGS-B", options={"maxiter": 5000}) for each in (nothing, ours)
    ]
    best = min(end.fun for end in ends)
    excess = (objective(ours)[0] - best) / max(best, 1e-3 * objective(nothing)[0])
    assert excess <= 5 * tol or any(issubclass(each.category, ConvergenceWarning) for each in told), (
        excess,
        loss,
        solver,
        type(given),
    )
    assert objective(ours)[0] <= objective(nothing)[0] * (1 + 1e-6)
