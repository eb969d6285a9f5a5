"""Fits that start at the last one are as near to the optimum as others, and quicker where it is near."""

import warnings

import numpy as np
import pytest
from tests.helpers.linear_tables import KINDS, excess, labels_of, table

from bitlane import DataError, EncodedTable, LinearClassifier, LinearRegressor
from bitlane.support.sklearn_compat import ConvergenceWarning

STARTS = ("half of the rows", "nothing", "random", "huge", "another table", "other scales")


def in_container(random, X):
    """A table as floats, integers or codes, and its values in float64."""
    how = str(random.choice(["float64", "float32", "integers", "codes"]))
    if how == "integers":
        return (given := np.rint(X / X.std(axis=0) * 50).astype(np.int32)), given.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of clipped columns
        given = EncodedTable.of(X) if how == "codes" else X.astype(how)
    return given, np.asarray(given, np.float64)


def set_start(random, start, model, X, labels, weights):
    """Let a model have coefficients."""
    rows, n = X.shape
    if start in ("half of the rows", "other scales"):
        some = np.sort(random.permutation(rows)[: max(2, rows // 2)])
        some[:2] = 0, 1  # both classes
        model.fit(X[some], labels[some], weights[some])
    if start == "another table":
        model.fit(random.normal(size=(50, n)) * X.std(axis=0), np.where(np.arange(50) % 2, 1.0, -1.0))
    if start in ("nothing", "random", "huge"):
        size = {"nothing": 0.0, "random": 1 / max(X.std(), 1e-9), "huge": 10.0 ** random.uniform(3, 300)}[start]
        model.fit(X, labels)
        model.coef_ = size * random.normal(size=model.coef_.shape)
        model.intercept_ = size * random.normal(size=1)
    if start == "other scales":
        model.coef_ = model.coef_ * 10.0 ** random.uniform(-3, 3, model.coef_.shape)


def told_by(model, *data):
    """Fit a model, and return the categories of its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(*data)
    return {each.category for each in told}


@pytest.mark.parametrize("kind", KINDS)
def test_any_start_is_as_near_to_the_optimum_as_none(seed, kind):
    random = np.random.default_rng(seed)
    rows, loss = int(random.integers(30, 3000)), str(random.choice(["log_loss", "squared_hinge", "squared_error"]))
    X, score = table(random, kind, rows, int(random.integers(1, 20)))
    labels = labels_of(random, kind, loss, score)
    X, values = in_container(random, X)
    weights = [np.ones(rows), random.uniform(0.1, 2, rows)][random.integers(2)]
    alpha, tol = float(random.choice([1e-5, 1e-3, 1e-1])), float(random.choice([1e-3, 1e-4]))
    kind_of_model = LinearRegressor if loss == "squared_error" else LinearClassifier
    solver, start = str(random.choice(["auto", "centered"])), str(random.choice(STARTS))
    model = kind_of_model(loss=loss, alpha=alpha, tol=tol, solver=solver, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        set_start(random, start, model, values, labels, weights)
    warned = told_by(model, X, labels, weights)
    over, over_nothing = excess(model, values, labels, weights, alpha)
    if over > 5 * tol or ConvergenceWarning in warned:
        cold = kind_of_model(loss=loss, alpha=alpha, tol=tol, solver=solver)
        assert ConvergenceWarning in told_by(cold, X, labels, weights) or ConvergenceWarning not in warned, (
            loss,
            start,
        )
        assert over <= max(5 * tol, 1.1 * excess(cold, values, labels, weights, alpha)[0]), (over, loss, start)
    assert RuntimeWarning not in warned and over_nothing <= 1 + 1e-6


@pytest.mark.parametrize("solver", ["auto", "centered"])
def test_a_fit_from_near_the_optimum_reads_less(seed, solver):
    """Of a table whose last fiftieth is new."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(20_000, 8)) + 0.5 * random.normal(size=8)
    y = X @ random.normal(size=8) + random.logistic(size=len(X)) > 1
    cold = LinearClassifier(alpha=1e-3, solver=solver).fit(X, y)
    model = LinearClassifier(alpha=1e-3, solver=solver, warm_start=True).fit(X[:-400], y[:-400])
    passes = [cold.solution_.passes, model.fit(X, y).solution_.passes, model.fit(X, y).solution_.passes]
    assert passes[0] > passes[1] >= passes[2], passes


@pytest.mark.parametrize("solver", ["auto", "gram", "centered"])
def test_several_targets_start_warm(seed, solver):
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 4)) + 10
    X[:, 1] = 3.0  # constant, and then no longer
    Y = X @ random.normal(size=(4, 3)) + random.normal(size=(300, 3)) + 1e6
    model = LinearRegressor(solver=solver, tol=1e-6, warm_start=True).fit(X, Y)
    X[:, 1] += random.normal(size=300)
    warm, cold = model.fit(X, Y), LinearRegressor(solver=solver, tol=1e-6).fit(X, Y)
    ours, others = (((each.predict(X) - Y) ** 2).mean(axis=0) for each in (warm, cold))
    assert (ours <= others * (1 + 3e-6)).all()


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
@pytest.mark.parametrize("constant", [False, True])
def test_the_optimum_itself_takes_few_passes(seed, loss, constant):
    """Of targets far from 0, and of columns that were not constant before."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(3000, 4)) + 10
    y = X[:, [0, 2, 3]] @ random.normal(size=3) + random.logistic(size=3000)
    y = y + 1e6 if loss == "squared_error" else y > y.mean()
    kind = LinearRegressor if loss == "squared_error" else LinearClassifier
    X[:, 1] = 3.0 if constant else X[:, 1]
    cold = kind(loss=loss, solver="centered").fit(X, y)
    model = kind(loss=loss, solver="centered", warm_start=True).fit(X, y)
    if constant:
        model.coef_[..., 1], model.intercept_ = 2.0, model.intercept_ - 2.0 * X[0, 1]
    model.fit(X, y)
    assert model.solution_.passes < cold.solution_.passes, (model.solution_.passes, cold.solution_.passes)
    assert not constant or not model.coef_[..., 1].any()


def test_other_data_is_refused_in_one_line(seed):
    X = np.random.default_rng(seed).normal(size=(60, 3))
    labels = np.arange(60) % 2
    model = LinearClassifier(warm_start=True).fit(X, labels)
    before = model.coef_
    for columns, classes, message in (
        (X[:, :2], labels, "X has 2 features, but LinearClassifier is expecting 3 features as input"),
        (X, np.arange(60) % 3, r"y has the classes \[0, 1, 2\], and the last fit had \[0, 1\]: set it to False"),
        (X, labels + 1, r"y has the classes \[1, 2\], and the last fit had \[0, 1\]: set it to False"),
    ):
        with pytest.raises(DataError, match=message):
            model.fit(columns, classes)
        assert model.coef_ is before
    numbers = LinearRegressor(warm_start=True).fit(X, X[:, 0])
    with pytest.raises(DataError, match="y has 2 targets, and the last fit had 1: set it to False"):
        numbers.fit(X, X[:, :2])
    with pytest.raises(DataError, match="warm_start='yes'"):
        LinearRegressor(warm_start="yes").fit(X, X[:, 0])


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize(("solver", "rows", "n"), [("auto", 20_000, 8), ("centered", 4_000, 80)])
@pytest.mark.parametrize("factor", [-1.0, 30.0, 1e30])
def test_a_far_start_is_dropped(seed, loss, solver, rows, n, factor):
    """It costs a read or two, and the rest is that of a fit from nothing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, n))
    y = X @ random.normal(size=n) / n**0.5 + random.logistic(size=rows) > 0
    cold = LinearClassifier(loss, alpha=1e-3, solver=solver).fit(X, y)
    model = LinearClassifier(loss, alpha=1e-3, solver=solver, warm_start=True).fit(X, y)
    model.coef_, model.intercept_ = model.coef_ * factor, model.intercept_ * factor
    model.fit(X, y)
    assert model.solution_.objective == pytest.approx(cold.solution_.objective, rel=2e-4)
    assert model.solution_.passes <= cold.solution_.passes + 3, (model.solution_.passes, cold.solution_.passes)
