"""Penalties chosen by cross-validation, against loops over folds and penalties in float64."""

import numpy as np
import pytest

from bitlane import DataError, LinearClassifier, LinearClassifierCV, LinearRegressor, LinearRegressorCV, encode_table
from bitlane.encoded.table import EncodedTable
from bitlane.solvers import by_gram, cross_validation

linear_model = pytest.importorskip("sklearn.linear_model")
model_selection = pytest.importorskip("sklearn.model_selection")


def some_weights(random, rows):
    return [None, random.integers(1, 4, rows).astype(float), random.uniform(0.1, 2, rows)][random.integers(3)]


def some_folds(random, rows):
    """Folds that cover the rows once, or shuffles that overlap, of which there are too many kinds of rows for parts."""
    seed = int(random.integers(1 << 30))
    kinds = (
        model_selection.KFold(4, shuffle=True, random_state=seed),
        model_selection.ShuffleSplit(4, random_state=seed),
    )
    return [*kinds[random.integers(2)].split(np.zeros((rows, 1)))]


def ridge_losses(X, y, weights, alphas, folds, intercept, fitted=None):
    """Half of the mean squared errors on held-out rows, [alphas, folds], of models fitted to X or `fitted`."""
    fitted = X if fitted is None else fitted
    weights = np.ones(len(X)) if weights is None else weights
    losses = np.empty((len(alphas), len(folds)))
    for fold, (train, test) in enumerate(folds):
        for at, alpha in enumerate(alphas):
            model = linear_model.Ridge(alpha * weights[train].sum(), fit_intercept=intercept, solver="svd")
            predicted = model.fit(fitted[train], y[train], weights[train]).predict(X[test])
            errors = (y[test] - predicted.reshape(-1, y.shape[1])) ** 2
            losses[at, fold] = np.average(errors, axis=0, weights=weights[test]).mean() / 2
    return losses


def high_bits(table, weights):
    """The values that the high 8 bits of the codes of a table stand for, with the means of the values."""
    codes = table if isinstance(table, EncodedTable) else EncodedTable.of(table)
    center, unit = codes.column_codes.center, codes.column_codes.scale * 2.0**-7
    values = center + unit * (np.floor((np.asarray(codes) - center) / unit) + 0.5)
    return values + np.average(np.asarray(table) - values, axis=0, weights=weights)


@pytest.mark.parametrize("how", ["floats", "float32 products", "codes", "exact codes", "encoded", "deeply encoded"])
def test_squares_are_a_loop_over_scikit_learns_ridge(seed, how, monkeypatch):
    random = np.random.default_rng(seed)
    rows, n, targets = int(random.integers(60, 400)), int(random.integers(1, 9)), int(random.integers(1, 3))
    X = random.normal(size=(rows, n)) * 10.0 ** random.uniform(-1, 1, n) + random.normal(size=n) * 3
    if how == "exact codes":
        X = np.rint(X * np.minimum(1, 127 / np.abs(X).max(axis=0)))
        X[0] += X.std(axis=0) == 0
    y = (X / X.std(axis=0)) @ random.normal(size=(n, targets)) + random.normal(size=(rows, targets)) + 100
    weights, folds, intercept = some_weights(random, rows), some_folds(random, rows), bool(random.integers(2))
    alphas = 10.0 ** random.uniform(-3, 1, 4)
    monkeypatch.setattr(by_gram, "codes_are_quicker", lambda rows, n: "codes" in how)
    monkeypatch.setattr(cross_validation, "SINGLES", 0 if how == "float32 products" else 1 << 40)
    table = encode_table(X, bits=12 if how == "deeply encoded" else 8) if "encoded" in how else X
    model = LinearRegressorCV(alphas=alphas, cv=folds, fit_intercept=intercept).fit(table, y, weights)
    assert model.alphas_.tolist() == sorted(alphas, reverse=True)
    values = np.asarray(table)
    expected = ridge_losses(values, y, weights, model.alphas_, folds, intercept)
    exact = how not in ("float32 products", "codes", "deeply encoded")
    if exact:
        np.testing.assert_allclose(model.cv_losses_, expected, rtol=1e-7)
    else:  # fitted to codes, or to the values if codes may cost more than the tolerance, and judged on the values
        near = 1e-4 if how == "float32 products" else 1e-6
        coded = ridge_losses(values, y, weights, model.alphas_, folds, intercept, high_bits(table, weights))
        assert any(np.allclose(model.cv_losses_, each, rtol=near) for each in (coded, expected))
    assert model.alpha_ == model.alphas_[model.cv_losses_.mean(axis=1).argmin()]
    alone = LinearRegressor(alpha=model.alpha_, fit_intercept=intercept).fit(table, y, weights)
    size = np.abs(alone.coef_).max()
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=size * (1e-7 if exact else 0.05))
    np.testing.assert_allclose(model.solution_.objective, alone.solution_.objective, rtol=1e-7 if exact else 1e-2)


def log_losses(X, y, weights, alphas, folds):
    """Mean logistic losses of scikit-learn's models on held-out rows, [alphas, folds]."""
    weights = np.ones(len(X)) if weights is None else weights
    losses = np.empty((len(alphas), len(folds)))
    for fold, (train, test) in enumerate(folds):
        for at, alpha in enumerate(alphas):
            strength = 1 / (alpha * weights[train].sum())
            model = linear_model.LogisticRegression(C=strength, tol=1e-8, max_iter=10_000, solver="newton-cholesky")
            scores = model.fit(X[train], y[train], weights[train]).decision_function(X[test])
            losses[at, fold] = np.average(np.logaddexp(0, -y[test] * scores), weights=weights[test])
    return losses


@pytest.mark.parametrize("encoded", [False, True])
def test_log_losses_are_a_loop_over_scikit_learns_logistic_regression(seed, encoded, monkeypatch):
    random = np.random.default_rng(seed)
    rows, n = int(random.integers(200, 800)), int(random.integers(1, 8))
    X = random.normal(size=(rows, n)) + random.normal(size=n)
    y = np.where((X - X.mean(axis=0)) @ random.normal(size=n) + random.logistic(size=rows) > 0, 1, -1)
    table = encode_table(X) if encoded else X
    weights, folds = some_weights(random, rows), some_folds(random, rows)
    alphas = 10.0 ** random.uniform(-3, 0, 3)
    if random.integers(2):  # one penalty at a time
        monkeypatch.setattr(cross_validation, "machine_memory", lambda: 1)
    model = LinearClassifierCV(alphas=alphas, cv=folds, tol=1e-5).fit(table, y, weights)
    expected = log_losses(np.asarray(table), y, weights, model.alphas_, folds)
    np.testing.assert_allclose(model.cv_losses_, expected, rtol=1e-2, atol=1e-3)
    chosen = expected.mean(axis=1)[model.alphas_ == model.alpha_][0]
    assert chosen <= expected.mean(axis=1).min() + 2e-3
    alone = LinearClassifier(alpha=model.alpha_, tol=1e-5).fit(table, y, weights)
    np.testing.assert_allclose(model.solution_.objective, alone.solution_.objective, rtol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=0.1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "squared_hinge"},
        {"penalty": "l1"},
        {"loss": "squared_error"},
        {"loss": "squared_error", "penalty": "elasticnet", "l1_ratio": 0.5},
    ],
)
def test_classes_share_a_penalty(seed, parameters):
    """Each class alone, in a loop over `LinearClassifier` with the weights of all rows; losses by hand."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(150, 3))
    y = (X @ random.normal(size=(3, 3)) + 2 * random.gumbel(size=(150, 3))).argmax(axis=1)
    share = len(y) / (3 * np.bincount(y, minlength=3))
    folds = [*model_selection.StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)]
    model = LinearClassifierCV(alphas=[1e-2, 1e-1], cv=folds, class_weight="balanced", **parameters).fit(X, y)
    expected = np.zeros((2, 3))
    for at, alpha in enumerate(model.alphas_):
        for fold, (train, test) in enumerate(folds):
            for k in range(3):
                sign, weights = np.where(y == k, 1, -1), np.where(y == k, share[k], 1.0)
                alone = LinearClassifier(alpha=alpha, **parameters).fit(X[train], sign[train], weights[train])
                margin = sign[test] * alone.decision_function(X[test])
                loss = {
                    "log_loss": np.logaddexp(0, -margin),
                    "squared_hinge": np.maximum(1 - margin, 0) ** 2,
                    "squared_error": (1 - margin) ** 2 / 2,
                }[model.loss]
                expected[at, fold] += np.average(loss, weights=weights[test]) / 3
    np.testing.assert_allclose(model.cv_losses_, expected, rtol=0.02, atol=2e-3)
    assert model.alpha_ == model.alphas_[model.cv_losses_.mean(axis=1).argmin()]
    assert model.coef_.shape == (3, 3) and (model.classes_ == [0, 1, 2]).all()


def test_hinge_losses_are_a_loop_over_folds(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(100, 2))
    y = np.where(X.sum(axis=1) + random.normal(size=100) > 0, 1, -1)
    rows, table = random.permutation(100), encode_table(X)
    folds = [(rows[:50], rows[50:]), (rows[50:], rows[:50])]
    model = LinearClassifierCV(loss="hinge", alphas=[0.1], cv=folds).fit(table, y)
    for fold, (train, test) in enumerate(folds):
        alone = LinearClassifier(loss="hinge", alpha=0.1).fit(table[train], y[train])
        loss = np.maximum(1 - y[test] * alone.decision_function(table[test]), 0).mean()
        assert abs(model.cv_losses_[0, fold] - loss) < 0.03


def test_a_path_for_l1_begins_where_all_coefficients_are_0(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 5)) + 4
    y = X @ random.normal(size=5) + random.normal(size=300)
    alphas = LinearRegressorCV(penalty="l1", alphas=5, random_state=seed).fit(X, y).alphas_
    assert not linear_model.Lasso(alphas[0] * 1.001).fit(X, y).coef_.any()
    assert linear_model.Lasso(alphas[0] * 0.9, tol=1e-9).fit(X, y).coef_.any()
    np.testing.assert_allclose(alphas[1:] / alphas[:-1], 1e-3**0.25)
    assert len(LinearRegressorCV(alphas=7).fit(X, y).alphas_) == 7


def test_ties_go_to_the_larger_penalty_and_a_seed_repeats_folds(seed):
    X = np.random.default_rng(seed).normal(size=(40, 2))
    model = LinearRegressorCV(alphas=[1.0, 3.0, 2.0]).fit(X, np.ones(40))
    assert model.alpha_ == 3.0 and not model.cv_losses_.any()
    labels = np.arange(40) % 4 == 0
    losses = [LinearClassifierCV(alphas=[0.1, 0.01], random_state=each).fit(X, labels).cv_losses_ for each in (1, 1, 2)]
    assert losses[0].tolist() == losses[1].tolist() != losses[2].tolist()


PAIRS = [(np.arange(6), np.arange(6, 12))] * 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cv": 1}, "cv=1: it must be an integer of at least 2"),
        ({"cv": 13}, "cv=13: there are only 12 rows"),
        ({"cv": "five"}, "cv='five': give a number of folds, a splitter, or pairs"),
        ({"cv": PAIRS[:1]}, "cv has 1 folds: give 2 or more"),
        ({"cv": [*PAIRS, ([0, 12], [1])]}, "cv has a fold with row 12 of 12 rows"),
        ({"cv": [*PAIRS, ([0.5], [1])]}, "cv has a fold with float64"),
        ({"cv": [*PAIRS, ([0, 11, 0], [1])]}, "cv has a fold with the same row twice"),
        ({"cv": [*PAIRS, ([0, 11], np.zeros(12, bool))]}, "fold 2 of cv has no row with a weight above 0 to hold out"),
        ({"cv": [*PAIRS, ([0, 2, 4], [11])]}, "fold 2 of cv fits no row of class 'b'"),
        ({"alphas": [1.0, 0.0]}, "alphas has 0: each penalty must be above 0"),
        ({"alphas": []}, r"alphas=\[\]: give a number of penalties, or a sequence"),
        ({"alphas": 0}, "alphas=0: it must be an integer of at least 1"),
        ({"alphas": ["x"]}, "alphas='x': it must be a finite number"),
        ({"penalty": None}, "penalty=None: there is no penalty to choose"),
        ({"loss": "log"}, "loss='log': choose one of 'log_loss'"),
        ({"solver": "gram"}, "solver='gram' is for squared errors"),
    ],
)
def test_errors_name_what_to_choose(parameters, message):
    X, y = np.arange(24.0).reshape(12, 2) ** 2, ["a", "b"] * 3 + ["a"] * 4 + ["b"] * 2
    with pytest.raises(DataError, match=message):
        LinearClassifierCV(**parameters).fit(X, y)
