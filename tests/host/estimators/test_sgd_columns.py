"""Tables whose columns are not all alike, with the defaults: near the optimum, or near that of the other rows."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.training.checkpoint import Checkpoint

linear_model = pytest.importorskip("sklearn.linear_model")


def mixed(rng, rows: int):
    """Two-valued, dominated, Gaussian, skewed and date-like columns, and scores that depend on all of them alike."""
    p = rng.uniform(0.02, 0.98, 6)
    X = np.column_stack(
        [
            rng.random((rows, 6)) < p,
            np.where(rng.random((rows, 2)) < 0.2, 1, -1),
            rng.poisson(0.3, (rows, 2)),
            (rng.random((rows, 2)) < 0.3) * rng.integers(0, 256, (rows, 2)),
            rng.normal(size=(rows, 3)),
            rng.exponential(size=rows),
            rng.normal(1.6e9, 1e6, rows),
        ]
    )
    scores = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.choice([-1, 1], X.shape[1])
    return X, scores / scores.std()


def split(rng, X, *rest):
    train = rng.random(len(X)) < 0.67
    return [part for array in (X, *rest) for part in (array[train], array[~train])]


def optimum(X, y, score_X, score_y, kind: str) -> float:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    best = linear_model.Ridge(1e-3) if kind == "regression" else linear_model.LogisticRegression(max_iter=1000)
    return float(make_pipeline(StandardScaler(), best).fit(X, y).score(score_X, score_y))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("_", range(3))
def test_mixed_columns_are_near_the_optimum(seed, bits, _):
    rng = np.random.default_rng([seed, _])
    X, scores = mixed(rng, 4000)
    y = scores + 0.4 * rng.normal(size=len(X))
    X, X_out, y, y_out = split(rng, X, y)
    model = SGDRegressor(bits=bits, device="cpu", random_state=seed).fit(X, y)
    assert model.score(X_out, y_out) > optimum(X, y, X_out, y_out, "regression") - 0.01
    labels, labels_out = y > 0.5, y_out > 0.5
    classes = SGDClassifier(bits=bits, loss="log_loss", device="cpu", random_state=seed).fit(X, labels)
    assert classes.score(X_out, labels_out) > optimum(X, labels, X_out, labels_out, "classes") - 0.03


@pytest.mark.parametrize("sampling", ["double", "nearest"])
@pytest.mark.parametrize("bits", [4, 8])
def test_the_intercept_of_two_valued_columns(seed, bits, sampling):
    """With squared errors the mean of the residuals is that of least squares: 0."""
    rng = np.random.default_rng(seed)
    X = (rng.random((3000, 12)) < rng.uniform(0.01, 0.99, 12)) * 1.0
    y = X @ rng.normal(size=12) + 100 + rng.normal(size=3000)
    model = SGDRegressor(bits=bits, sampling=sampling, device="cpu", random_state=seed).fit(X, y)
    assert abs(np.mean(y - model.predict(X))) < 0.03 * y.std()
    assert model.score(X, y) > linear_model.LinearRegression().fit(X, y).score(X, y) - 0.005


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("sampling", ["double", "nearest"])
def test_one_row_of_outliers(seed, bits, sampling):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 6))
    scores = X @ rng.choice([-1, 1], 6) / np.sqrt(6)
    y = scores + 0.2 * rng.normal(size=2000)
    row = int(rng.integers(2000))
    rest = np.arange(2000) != row
    X[row] = 10.0 ** rng.uniform(3, 9)
    model = SGDRegressor(bits=bits, sampling=sampling, device="cpu", random_state=seed)
    with pytest.warns(UserWarning, match=r"6 column\(s\) of X hold outliers.*: 0, 1, 2, 3, 4, 5; clip=None keeps them"):
        model.fit(X, y)
    assert model.score(X[rest], y[rest]) > (0.7 if bits == 2 else 0.9)
    assert model.run_.clipped.tolist() == pytest.approx([1 / 2000] * 6)
    assert model.predict(X) == pytest.approx(X @ model.coef_ + model.intercept_)  # linear in what the user gives
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.set_params(clip=None).fit(X, y).score(X[rest], y[rest]) < 0.1
    assert not model.run_.clipped.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [4, 8])
def test_single_values_up_to_the_largest_number(seed, bits, dtype):
    """A few cells of some columns, also the largest float: the model is that of the rows without them."""
    rng = np.random.default_rng(seed)
    rows, n = int(rng.integers(300, 3000)), int(rng.integers(2, 8))
    X = rng.normal(size=(rows, n)).astype(dtype)
    y = X @ rng.choice([-1, 1], n) / np.sqrt(n) + 0.2 * rng.normal(size=rows)
    bad = rng.choice(rows, int(rng.integers(1, 4)), replace=False)
    largest = np.finfo(dtype).max
    for row in bad:
        size = largest if rng.random() < 0.3 else dtype(10.0 ** rng.uniform(3, np.log10(largest) - 0.1))
        X[row, rng.integers(n)] = rng.choice([-1, 1]) * size
    rest = np.setdiff1d(np.arange(rows), bad)
    model = SGDRegressor(bits=bits, device="cpu", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of numpy
        warnings.filterwarnings("ignore", category=UserWarning)
        model.fit(X, y)
        score = model.score(X[rest], y[rest])
        assert score > model.fit(X[rest], y[rest]).score(X[rest], y[rest]) - 0.03


def test_optimal_levels_ignore_outliers(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 4))
    y = X.sum(axis=1) + 0.2 * rng.normal(size=2000)
    X[7] = 1e6
    with pytest.warns(UserWarning, match="outliers"):
        model = SGDRegressor(levels="optimal", device="cpu", random_state=seed).fit(X, y)
    assert np.delete(y, 7).var() and model.score(np.delete(X, 7, 0), np.delete(y, 7)) > 0.95
    assert np.abs(model.run_.levels).max() < 20


@pytest.mark.parametrize("first", [True, False])
def test_one_row_of_a_stream_does_not_spoil_the_rest(seed, first):
    rng = np.random.default_rng(seed)
    coef = rng.choice([-1.0, 1.0], 6)

    def stream(bad: bool):
        model = SGDRegressor(device="cpu", random_state=seed)
        numbers = np.random.default_rng([seed, 1])
        for call in range(40):
            X = numbers.normal(size=(200, 6))
            y = X @ coef + 0.2 * numbers.normal(size=200)
            if bad and call == (0 if first else 20):
                X[5] = 1000
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.partial_fit(X, y)
        X = numbers.normal(size=(2000, 6))
        return model.score(X, X @ coef)

    assert stream(True) > stream(False) - 0.01 > 0.95


def test_a_stream_warns_in_the_same_words(seed):
    rng = np.random.default_rng(seed)
    model = SGDRegressor(device="cpu", random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            X = rng.normal(size=(500, 3))
            X[3, 1] = 1e5
            model.partial_fit(X, X.sum(axis=1))
    said = [str(each.message) for each in caught if "outliers" in str(each.message)]
    assert len(said) == 1


def test_shares_are_kept_in_checkpoints_and_old_pickles_have_none(seed, tmp_path):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 3))
    X[[4, 9], 2] = 1e4
    with pytest.warns(UserWarning, match=r"1 column\(s\) of X hold outliers, which are clipped: 2"):
        model = SGDRegressor(device="cpu", random_state=seed, epochs=2).fit(X, X[:, 0])
    model.run_.checkpoint().save(tmp_path / "state.npz")
    read = Checkpoint.load(tmp_path / "state.npz")
    resumed = SGDRegressor(device="cpu", random_state=seed, epochs=4).fit(X, X[:, 0], resume=read)
    assert resumed.run_.clipped.tolist() == model.run_.clipped.tolist() == [0, 0, 0.002]
    scaling = model.run_.scaling
    del scaling.__dict__["clipped"]  # as a version without this attribute has written it
    assert not pickle.loads(pickle.dumps(model)).run_.clipped.any()


@pytest.mark.parametrize("_", range(5))
def test_a_label_far_from_all_others_is_told(seed, _):
    """Squared errors follow it, as in scikit-learn. Labels with heavy tails and labels of classes have no warning.

    The labels with heavy tails are quantiles, since among random ones, seldom, one does lie far from all others.
    """
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng([seed, _])
    rows = int(rng.integers(100, 3000))
    X = rng.normal(size=(rows, 3))
    bad = X.sum(axis=1) + rng.normal(size=rows)
    p = (rng.permutation(rows) + 0.5) / rows
    for y in (bad, stats.lognorm(1.2).ppf(p), stats.t(4).ppf(p), rng.poisson(0.2, rows), rng.random(rows) < 0.01):
        if len(np.unique(y)) < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SGDRegressor(epochs=1, device="cpu").fit(X, y)
    bad[int(rng.integers(rows))] = rng.choice([-1, 1]) * 10.0 ** rng.uniform(4, 12)
    with pytest.warns(UserWarning, match="y holds values far from all others"):
        SGDRegressor(epochs=1, device="cpu").fit(X, bad)


def test_an_unknown_choice_is_refused():
    with pytest.raises(ValueError, match="clip='never': choose 'auto' or None"):
        SGDRegressor(clip="never", device="cpu").fit([[0.0], [1.0]], [0.0, 1.0])
