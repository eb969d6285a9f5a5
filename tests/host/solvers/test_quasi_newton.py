"""L-BFGS over passes, where Hessians take long, against Newton's method in float64."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.helpers.margin_optima import objective, optimum

from bitlane import LinearClassifier, LinearClassifierCV
from bitlane.solvers import quasi_newton

FLOOR = 1e-3  # of the loss of a constant model: what a tolerance counts from at least


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take L-BFGS for small tables, too."""
    monkeypatch.setattr(quasi_newton, "MOST_PASSES", 0.0)
    monkeypatch.setattr("bitlane.solvers.centered.passes_of_newton", lambda *_: 30.0)
    monkeypatch.setattr("bitlane.solvers.solve.NARROW", 0)


def wide(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of one of five kinds and labels; integers are their own codes."""
    rows, columns = int(rng.integers(60, 500)), int(rng.integers(2, 120))
    mixed = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.5 * rng.normal(size=(columns, columns)))
    kind = int(rng.integers(5))
    if kind == 1:
        mixed = (rng.random((rows, columns)) < rng.uniform(0.01, 0.5, columns)) * 1.0
    elif kind == 2:
        mixed = mixed * 10 ** rng.uniform(-3, 3, columns)
    elif kind == 3:
        mixed = mixed + 20 * rng.normal(size=columns) * mixed.std(axis=0)
    elif kind == 4:
        mixed = rng.integers(0, 256, (rows, columns)).astype(np.uint8)
    scaled = (mixed - mixed.mean(axis=0)) / np.maximum(mixed.std(axis=0), 1e-9)
    scores = scaled @ rng.normal(size=columns) / columns**0.5 + rng.logistic(size=rows) * rng.choice([0.1, 1])
    y = scores > np.quantile(scores, rng.choice([0.1, 0.5, 0.9]))
    return mixed, y


@pytest.mark.parametrize("_", range(12))
def test_objectives_are_at_their_optimum_and_the_excess_is_no_less(_, seed, everywhere):
    rng = np.random.default_rng([seed, _])
    X, y = wide(rng)
    loss = str(rng.choice(["log_loss", "squared_hinge"]))
    alpha = float(X.var(axis=0).mean() * 10 ** rng.uniform(-5, 0))
    tol, free = 10.0 ** -int(rng.integers(2, 6)), bool(rng.random() < 0.8)
    weights = rng.uniform(0.1, 3, len(X)) if rng.random() < 0.3 else np.ones(len(X))
    model = LinearClassifier(loss=loss, alpha=alpha, tol=tol, fit_intercept=free)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, None if (weights == 1).all() else weights)
    assert model.solution_.converged.all() != any("the solver ended" in str(each.message) for each in told)
    found = objective(X, y, weights, loss, alpha, model.coef_[0], float(model.intercept_[0]))
    least = optimum(X, y, weights, loss, alpha, free)
    constant = objective(X, y, weights, loss, alpha, 0 * model.coef_[0], 0.0)
    if model.solution_.converged.all():
        assert found - least <= 1.05 * tol * max(found, FLOOR * constant) + 1e-7 * constant
        assert model.solution_.excess[0] >= found - least - 0.1 * tol * max(found, FLOOR * constant) - 1e-6 * constant


def test_many_columns_take_it_and_few_do_not(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    made = []
    monkeypatch.setattr(quasi_newton.QuasiNewton, "run", _counted(quasi_newton.QuasiNewton.run, made))
    for rows, columns, expected in ((800, 900, True), (6000, 300, False)):
        X = rng.normal(size=(rows, columns))
        y = X[:, 0] + rng.normal(size=rows) > 0
        made.clear()
        LinearClassifier(alpha=1e-2).fit(X, y)
        assert bool(made) == expected


def _counted(run, made):
    def counting(*arguments, **options):
        made.append(1)
        return run(*arguments, **options)

    return counting


def test_newton_goes_on_where_it_ends_too_early(seed, everywhere, monkeypatch):
    monkeypatch.setattr("bitlane.solvers.centered.passes_of_newton", lambda *_: 0.4)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 20))
    y = X[:, 0] + rng.normal(size=300) > 0
    model = LinearClassifier(alpha=1e-2, tol=1e-5).fit(X, y)
    least = optimum(X, y, np.ones(300), "log_loss", 1e-2, True)
    assert model.solution_.converged.all()
    assert objective(X, y, np.ones(300), "log_loss", 1e-2, model.coef_[0], float(model.intercept_[0])) < least * (
        1 + 2e-5
    )


def test_a_warm_start_takes_fewer_passes_and_a_bad_one_does_no_harm(seed, everywhere):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 256, (400, 60)).astype(np.uint8)
    y = X[:, 0] * 1.0 + X[:, 1] + 60 * rng.normal(size=400) > 256
    model = LinearClassifier(alpha=10.0, tol=1e-5, warm_start=True).fit(X, y)
    first = model.solution_
    assert model.fit(X, y).solution_.n_iter < first.n_iter
    model.coef_ = model.coef_ * -1e6
    assert model.fit(X, y).solution_.objective <= first.objective * (1 + 2e-5)


def test_a_search_of_a_wide_table(seed):
    """Folds and penalties are models in step: each penalty's loss is that of a fit to the rows of the folds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(240, 700))
    y = X[:, :5].sum(axis=1) + rng.normal(size=240) > 0
    model = LinearClassifierCV(alphas=[0.03, 0.3, 3.0], cv=3, tol=1e-5).fit(X, y)
    assert model.solution_.solver == "centered"
    least = optimum(X, y, np.ones(240), "log_loss", model.alpha_, True)
    found = objective(X, y, np.ones(240), "log_loss", model.alpha_, model.coef_[0], float(model.intercept_[0]))
    assert found <= least * (1 + 2e-5)


def test_it_decomposes_no_matrix_and_nothing_says_so(seed, everywhere, monkeypatch):
    monkeypatch.setattr("bitlane.solvers.centered.WIDE", 3)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 20))
    y = X[:, 0] + rng.normal(size=300) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier(alpha=1e-2).fit(X, y)
    with pytest.warns(UserWarning, match="this fit decomposes matrices of 20 x 20"):
        LinearClassifier(loss="hinge", alpha=1e-2).fit(X, y)
