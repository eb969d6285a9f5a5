"""Pieces of rows give the model of all rows, against float64 on all of them; standard errors against the textbook."""

import pickle
import warnings

import numpy as np
import pytest
from tests.helpers.linear_tables import KINDS, excess, labels_of, table

from bitlane import DataError, EncodedTable, LinearRegressor
from bitlane.support.sklearn_compat import ConvergenceWarning

linear_model = pytest.importorskip("sklearn.linear_model")
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def pieces(random, rows):
    """Random pieces of rows, one row and others, in random order."""
    cuts = np.sort(np.append(random.integers(0, rows + 1, random.integers(0, 12)), [1, 2]))
    found = [piece for piece in np.split(random.permutation(rows), cuts) if len(piece)]
    return [found[at] for at in random.permutation(len(found))]


def fitted(model, random, X, y, weights=None):
    """Fit a model to pieces of rows, and store it in between."""
    for some in pieces(random, len(X)):
        model.partial_fit(X[some], y[some], None if weights is None else weights[some])
        model = pickle.loads(pickle.dumps(model))
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_give_the_optimum_or_its_distance_is_told(seed, kind):
    random = np.random.default_rng(seed)
    rows = int(random.integers(30, 2000))
    X, score = table(random, kind, rows, int(random.integers(1, 20)))
    X = X.astype(random.choice([np.float32, np.float64]))
    y = labels_of(random, kind, "squared_error", score) + random.choice([0, 1e6])
    weights = [np.ones(rows), random.uniform(0.1, 2, rows)][random.integers(2)]
    alpha, tol = float(random.choice([1e-5, 1e-3, 1e-1])), float(random.choice([1e-3, 1e-4, 1e-6]))
    model = LinearRegressor(alpha=alpha, tol=tol)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = fitted(model, random, X, y, weights)
    model.intercept_ -= (shift := y.mean())  # what is near 0 keeps its digits in the minimiser
    over, over_nothing = excess(model, X.astype(np.float64), y - shift, weights, alpha)
    assert over <= 2 * tol or any(issubclass(each.category, ConvergenceWarning) for each in told), over
    assert over_nothing <= 1 + 1e-6
    assert model.solution_.bytes_read == X.nbytes


def textbook(X, Y, w, intercept):
    """Design, coefficients of least norm, squared errors and standard errors by float64 on standardised columns."""
    design = np.column_stack([np.ones(len(X)), X]) if intercept else X
    scale = np.sqrt((design**2).sum(axis=0))
    scale[scale == 0] = 1
    root = np.sqrt(w)[:, None]
    found = np.linalg.lstsq(root * design / scale, root * Y, rcond=None)[0] / scale[:, None]
    left = w @ (Y - design @ found) ** 2
    inverse = np.linalg.pinv((root * design / scale).T @ (root * design / scale)) / scale / scale[:, None]
    errors = np.sqrt(np.maximum(np.diag(inverse), 0)[:, None] * left / max(1, w.sum() - design.shape[1]))
    return design, left, errors


@pytest.mark.parametrize("change", ["columns begin to vary", "scales change", "combinations", "wide"])
def test_least_squares_without_penalty(seed, change):
    """Of several targets, as the minimum norm solution on all rows."""
    random = np.random.default_rng(seed)
    rows, n = int(random.integers(20, 400)), int(random.integers(2, 9))
    rows = n if change == "wide" else rows
    X, part = random.normal(size=(rows, n)), np.arange(rows) > rows // 2
    constant = random.choice([0.1, -7.3, 1e9 + 0.1, 0.0])
    if change == "columns begin to vary":
        X[~part, 0] = X[:, 1] = constant
    if change == "scales change":
        X *= np.where(part, 10.0 ** random.uniform(-3, 3), 1.0)[:, None]
        X += np.where(part, 10.0 ** random.uniform(-3, 3), 1.0)[:, None] * random.normal(size=n)
    if change == "combinations":
        X[:, -1] = X[:, 0] - 2
    Y = X[:, ::-1] @ random.normal(size=(n, 3)) + random.normal(size=(rows, 3))
    weights, order = [np.ones(rows), random.integers(1, 4, rows).astype(float)][random.integers(2)], np.arange(rows)
    model = LinearRegressor()
    for some in np.array_split(order, random.integers(1, rows + 1)):
        model.partial_fit(X[some], Y[some], weights[some])
    _, left, _ = textbook(X - X.mean(axis=0), Y, weights, True)
    ours = weights @ (model.predict(X) - Y) ** 2
    np.testing.assert_allclose(ours, left, rtol=1e-6, atol=1e-8 * (weights @ (Y - Y.mean(axis=0)) ** 2).max())
    if change == "columns begin to vary":
        assert not model.coef_[:, 1].any()


def test_a_first_row_far_from_all_others_costs_no_digits(seed):
    """As a time that is missing in it."""
    random = np.random.default_rng(seed)
    X = 1e8 + random.normal(size=(20_000, 2))
    X[0] = 0
    y = (X - 1e8) @ random.normal(size=2) + random.normal(size=len(X))
    model = LinearRegressor()
    for some in np.split(np.arange(len(X)), np.append(1, np.arange(100, len(X), 100))):
        model.partial_fit(X[some], y[some])
    _, left, _ = textbook(X - X.mean(axis=0), y[:, None], np.ones(len(X)), True)
    np.testing.assert_allclose(((model.predict(X) - y) ** 2).sum(), left, rtol=1e-4)


def test_constant_columns_have_no_coefficient(seed):
    """Whatever their means round to."""
    random = np.random.default_rng(seed)
    constants = np.array([0.1, 1 / 3, 1e9 + 0.1, -7.3, 1e-9 / 3, 123456.789])
    model = LinearRegressor()
    for _ in range(20):
        X = np.tile(np.append(0, constants), (int(random.integers(1, random.choice([3, 1000]))), 1))
        X[:, 0] = random.normal(size=len(X))
        model.partial_fit(X, X[:, 0] + random.normal(size=len(X)), random.uniform(0.1, 2, len(X)))
    assert np.flatnonzero(model.coef_).tolist() == [0]


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_lasso_of_pieces_is_scikit_learns(seed, share):
    random = np.random.default_rng(seed)
    rows, n = int(random.integers(100, 400)), int(random.integers(1, 12))
    X = random.normal(size=(rows, n)) * 10.0 ** random.uniform(-1, 1, n) + 5
    Y = X @ random.normal(size=(n, 2)) + random.normal(size=(rows, 2)) + 100
    alpha = np.abs((X - X.mean(axis=0)).T @ Y).max() / rows * 10.0 ** random.uniform(-2, 0)
    model = fitted(LinearRegressor(penalty="elasticnet", alpha=alpha, l1_ratio=share), random, X, Y)
    peer = linear_model.ElasticNet(alpha, l1_ratio=share, tol=1e-12, max_iter=100_000).fit(X, Y)
    ours, best = (
        ((each.predict(X) - Y) ** 2).mean(axis=0) / 2
        + alpha * (share * np.abs(each.coef_) + (1 - share) / 2 * each.coef_**2).sum(axis=1)
        for each in (model, peer)
    )
    assert (ours <= best * (1 + 2 * model.tol)).all()


def test_codes_and_floats_are_pieces_of_one_table(seed):
    random = np.random.default_rng(seed)
    X = random.integers(0, 200, (300, 4)).astype(np.int16)
    X[:, 2] = 5
    y = X @ random.normal(size=4) + random.normal(size=300)
    coded = EncodedTable.of(X[:200])
    model = LinearRegressor().partial_fit(coded, y[:200]).partial_fit(X[200:], y[200:])
    _, left, _ = textbook(np.vstack([np.asarray(coded), X[200:]])[:, [0, 1, 3]], y[:, None], np.ones(300), True)
    seen = np.vstack([np.asarray(coded), X[200:]])
    np.testing.assert_allclose(((model.predict(seen) - y) ** 2).sum(), left, rtol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_standard_errors_are_the_textbooks(seed, intercept):
    random = np.random.default_rng(seed)
    rows, n = int(random.integers(20, 300)), int(random.integers(1, 8))
    X = random.normal(size=(rows, n)) * 10.0 ** random.uniform(-2, 2, n) + random.normal(size=n)
    Y = X @ random.normal(size=(n, 2)) + random.normal(size=(rows, 2))
    times = random.integers(1, 4, rows)
    model = fitted(LinearRegressor(fit_intercept=intercept), random, X, Y, times)
    coef, constant = model.standard_errors()
    *_, errors = textbook(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0), np.ones(times.sum()), intercept)
    np.testing.assert_allclose(coef, errors[int(intercept) :].T, rtol=1e-6)
    np.testing.assert_allclose(constant, errors[0] if intercept else [0, 0], rtol=1e-6)


def test_what_has_no_sums_is_refused_in_one_line(seed):
    X = np.random.default_rng(seed).normal(size=(30, 3))
    y = X.sum(axis=1)
    fit = LinearRegressor().fit(X, -y)
    with pytest.raises(DataError, match="standard errors need sums that fit does not keep"):
        fit.standard_errors()
    with pytest.warns(UserWarning, match="partial_fit starts anew, with its own rows alone"):
        fit.partial_fit(X, y)
    np.testing.assert_allclose(fit.coef_, 1)
    with pytest.raises(DataError, match="solver='centered' reads all rows several times"):
        LinearRegressor(solver="centered").partial_fit(X, y)
    model = LinearRegressor().partial_fit(X, y)
    before = model.coef_
    for columns, targets, message in (
        (X[:, :2], y, "X has 2 features, but LinearRegressor is expecting 3"),
        (X, np.c_[y, y], "y has 2 targets, and earlier calls had 1"),
        (X * 1e200, y, "squares are above the largest float64"),
        (X[:0], y[:0], "0"),
    ):
        with pytest.raises(DataError, match=message):
            model.partial_fit(columns, targets)
        assert model.coef_ is before
    with pytest.raises(DataError, match=r"set alpha=0 instead of 0\.1"):
        LinearRegressor(alpha=0.1).partial_fit(X, y).standard_errors()
    with pytest.raises(DataError, match="more rows than coefficients; got 4 rows"):
        LinearRegressor().partial_fit(X[:4], y[:4]).standard_errors()
    with pytest.raises(DataError, match="4 vary, with a rank of 3"):
        LinearRegressor().partial_fit(np.c_[X, X[:, 0]], y).standard_errors()


def test_penalties_may_change_between_pieces_and_small_columns_are_told(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 3)) * [1.0, 1e-6, 1.0]
    y = X[:, 1] * 1e6
    model = LinearRegressor().partial_fit(X[:100], y[:100]).set_params(alpha=1e-3)
    with pytest.warns(UserWarning, match=r"alpha=0.001 outweighs the data in 1 column\(s\) of X.*: 1; scale them"):
        model.partial_fit(X[100:], y[100:])
    peer = linear_model.Ridge(1e-3 * 300, solver="svd").fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-6, atol=1e-9)
