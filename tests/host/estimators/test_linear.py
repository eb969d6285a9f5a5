"""Estimators at the optimum, against scikit-learn's in float64."""

import warnings

import numpy as np
import pytest

from bitlane import DataError, LinearClassifier, LinearRegressor
from bitlane.solvers import by_gram

linear_model = pytest.importorskip("sklearn.linear_model")


def table(random, rows, n):
    """A table of columns with other means and scales, some of which depend on others."""
    X = random.normal(size=(rows, n)) @ (np.eye(n) + 0.5 * random.normal(size=(n, n)) / np.sqrt(n))
    return X * 10.0 ** random.uniform(-1, 2, n) + random.normal(size=n) * 10


def test_ridge_is_scikit_learns(seed):
    random = np.random.default_rng(seed)
    rows, n, targets = int(random.integers(20, 400)), int(random.integers(1, 12)), int(random.integers(1, 4))
    X = table(random, rows, n)
    y = X @ random.normal(size=(n, targets)) + random.normal(size=(rows, targets)) + 100
    alpha, intercept = float(random.choice([0.0, 1e-3, 1.0])), bool(random.integers(2))
    weights = [None, random.integers(0, 4, rows), random.uniform(0, 2, rows)][random.integers(3)]
    total = rows if weights is None else weights.sum()
    model = LinearRegressor(alpha=alpha, fit_intercept=intercept).fit(X, y, weights)
    peer = linear_model.Ridge(alpha * total, fit_intercept=intercept, solver="svd").fit(X, y, weights)
    np.testing.assert_allclose(
        model.predict(X).reshape(y.shape), peer.predict(X).reshape(y.shape), rtol=1e-6, atol=1e-6
    )
    assert model.solution_.solver == "gram"


def test_tables_of_integers_take_one_exact_read(seed, monkeypatch):
    """Columns that depend on others: of all optima, that with the least coefficients."""
    random = np.random.default_rng(seed)
    rows, n = int(random.integers(30, 300)), int(random.integers(2, 9))
    X = random.integers(0, 100, (rows, n)).astype(random.choice([np.int16, np.float32]))
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.full(rows, 7, X.dtype)])
    y = X @ random.normal(size=(n + 2, 2)) + 10 * random.normal(size=(rows, 2)) + 100
    monkeypatch.setattr(by_gram, "codes_are_quicker", lambda rows, n: True)
    model = LinearRegressor(alpha=0.0).fit(X, y)
    peer = linear_model.LinearRegression().fit(X.astype(np.float64), y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-8 * np.abs(peer.coef_).max())
    assert (model.solution_.passes, model.solution_.excess.max()) == (1, 0.0)


@pytest.mark.parametrize("how", ["floats", "codes", "exact codes"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_lasso_is_scikit_learns(seed, how, penalty, monkeypatch):
    random = np.random.default_rng(seed)
    rows, n, tol = int(random.integers(100, 400)), int(random.integers(1, 12)), float(10.0 ** random.uniform(-5, -3))
    X = table(random, rows, n)
    X = np.rint(X * np.minimum(1, 127 / np.abs(X).max(axis=0))) if how == "exact codes" else X
    X[0] += X.std(axis=0) == 0
    y = (X / X.std(axis=0)) @ random.normal(size=(n, 2)) + random.normal(size=(rows, 2)) + 100
    share = 1.0 if penalty == "l1" else 0.3
    alpha = np.abs((X - X.mean(axis=0)).T @ y).max() / rows * 10.0 ** random.uniform(-2, 0)
    monkeypatch.setattr(by_gram, "codes_are_quicker", lambda rows, n: how != "floats")
    model = LinearRegressor(penalty=penalty, alpha=alpha, l1_ratio=share, tol=tol).fit(X, y)
    peer = linear_model.ElasticNet(alpha, l1_ratio=share, tol=1e-12, max_iter=100_000).fit(X, y)
    ours, best = (
        ((each.predict(X) - y) ** 2).mean(axis=0) / 2
        + alpha * (share * np.abs(each.coef_) + (1 - share) / 2 * each.coef_**2).sum(axis=1)
        for each in (model, peer)
    )
    assert (ours <= best * (1 + 2 * tol)).all()
    assert (model.solution_.solver, model.solution_.converged.all()) == ("gram", True)


def objective(X, y, coef, intercept, alpha, weights):
    loss = np.logaddexp(0, -y * (X @ coef + intercept))
    return np.average(loss, weights=weights) + alpha / 2 * coef @ coef


def test_logistic_regression_is_scikit_learns(seed):
    random = np.random.default_rng(seed)
    rows, n, alpha = int(random.integers(50, 1500)), int(random.integers(1, 12)), float(random.choice([1e-3, 1e-1]))
    X = random.normal(size=(rows, n)) + random.normal(size=n)
    y = np.where(X @ random.normal(size=n) + random.logistic(size=rows) > 0, 1, -1)
    if len(np.unique(y)) < 2:
        y[0] = -y[0]
    weights = [None, random.uniform(0.1, 2, rows)][random.integers(2)]
    total = rows if weights is None else weights.sum()
    model = LinearClassifier(alpha=alpha).fit(X, y, weights)
    peer = linear_model.LogisticRegression(C=1 / (alpha * total), tol=1e-10, max_iter=10_000).fit(X, y, weights)
    ours, least = (objective(X, y, each.coef_[0], each.intercept_[0], alpha, weights) for each in (model, peer))
    assert ours <= least * (1 + 5e-3)
    assert model.solution_.solver == "newton"


def test_classes_are_one_against_the_rest(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(600, 5))
    y = np.array(["a", "b", "c"])[(X @ random.normal(size=(5, 3)) + random.gumbel(size=(600, 3))).argmax(axis=1)]
    model = LinearClassifier(alpha=1e-2, class_weight="balanced").fit(X, y)
    for k, label in enumerate(model.classes_):
        own = np.where(y == label, len(y) / (3 * (y == label).sum()), 1.0)
        alone = LinearClassifier(alpha=1e-2).fit(X, y == label, own)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=0.02)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(X)).all()


@pytest.mark.parametrize("solver", ["gram", "centered"])
def test_targets_far_from_zero_keep_their_digits(seed, solver):
    random = np.random.default_rng(seed)
    X = random.normal(size=(500, 3))
    y = X @ random.normal(size=3) + 1e9
    model = LinearRegressor(solver=solver, tol=1e-6).fit(X, y)
    assert model.score(X, y) > 0.999


def test_a_penalty_that_outweighs_tiny_columns_is_told(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 3)) * [1.0, 1e-6, 1.0]
    y = X[:, 1] > 0
    with pytest.warns(UserWarning, match=r"alpha=0.0001 outweighs the data in 1 column\(s\) of X.*: 1; scale them"):
        LinearClassifier().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier().fit(X * [1.0, 1e6, 1.0], y)


def test_many_columns_are_told(monkeypatch):
    monkeypatch.setattr("bitlane.solvers.centered.WIDE", 3)
    X = np.eye(6)[:, :4]
    with pytest.warns(UserWarning, match="X has 4 columns, and this fit decomposes matrices of 4 x 4"):
        LinearRegressor().fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearRegressor(loss="hinge"), "loss='hinge': choose one of 'squared_error'"),
        (LinearRegressor(penalty="l3"), "penalty='l3': choose one of None, 'l2'"),
        (LinearRegressor(alpha=-1.0), "alpha=-1.0: it must be 0 or more"),
        (LinearRegressor(penalty="elasticnet", l1_ratio=2.0), "l1_ratio=2.0: choose a number from 0 to 1"),
        (LinearRegressor(tol=0.0), "tol=0.0: it must be above 0"),
        (LinearRegressor(solver="newton"), "solver='newton': choose one of 'auto', 'gram', 'centered'"),
        (LinearClassifier(solver="gram"), "solver='gram' is for squared errors, not for loss='log_loss': use 'auto'"),
        (LinearRegressor(bits=9), "bits=9"),
        (LinearRegressor(bits=5), "bits=5: choose an even number from 2 to 8"),
    ],
)
def test_errors_name_what_to_choose(model, message):
    with pytest.raises(DataError, match=message):
        model.fit(np.arange(6.0).reshape(3, 2) ** 2, [1.0, 2.0, 4.0])
