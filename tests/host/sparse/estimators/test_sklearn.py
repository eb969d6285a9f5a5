"""scikit-learn's own checks of estimators, and its tools around them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_weights import EQUIVALENCE

from bitlane.errors import DataError
from bitlane.sparse import FFMClassifier, FMClassifier, FMRegressor, LRClassifier, LRRegressor

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn", minversion="1.6")
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

ALL = (LRClassifier, FMClassifier, FFMClassifier, LRRegressor, FMRegressor)


@parametrize_with_checks(
    [*(kind() for kind in ALL), FFMClassifier(linear="ftrl", fit_intercept=True)],
    expected_failed_checks=lambda estimator: EQUIVALENCE,
)
def test_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def cells(seed: int, rows: int = 400) -> tuple[Any, np.ndarray]:
    """Two columns of categories whose product decides the label, mostly."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (rows, 2))
    y = (rng.random(rows) < np.where((X[:, 0] + X[:, 1]) % 2 == 0, 0.95, 0.05)).astype(int)
    return X, y


def test_pipelines_and_searches(seed: int) -> None:
    X, y = cells(seed, 600)
    model = make_pipeline(OneHotEncoder(), FMClassifier(epochs=20, random_state=seed % 1000))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8
    search = GridSearchCV(model, {"fmclassifier__epochs": [1, 20]}, cv=2).fit(X, y)
    assert search.best_params_ == {"fmclassifier__epochs": 20} and search.best_score_ > 0.8


@pytest.mark.parametrize("kind", ALL)
def test_pickles_and_clones(kind: Any, seed: int) -> None:
    X, y = cells(seed)
    hot = OneHotEncoder().fit_transform(X)
    fields = np.repeat([0, 1], [6, 6])
    model = kind(random_state=3, fields=fields).fit(hot, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model._scores(hot), again._scores(hot))
    assert again.model_.rows_seen == model.model_.rows_seen == 2000
    assert again.get_params().keys() == model.get_params().keys()
    rest = (hot[:50], y[:50])
    assert np.array_equal(model.partial_fit(*rest)._scores(hot), again.partial_fit(*rest)._scores(hot)), "state too"
    fresh = clone(model)
    assert not hasattr(fresh, "model_") and np.array_equal(fresh.fields, fields)


@pytest.mark.slow
def test_workers_of_joblib_fit(seed: int) -> None:
    joblib = pytest.importorskip("joblib")
    X, y = cells(seed)
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(FMClassifier(random_state=s).fit)(X, y) for s in (1, 1, 2))
    scores = [model.decision_function(X) for model in found]
    assert np.array_equal(scores[0], scores[1]) and not np.array_equal(scores[0], scores[2])
    assert np.array_equal(scores[0], FMClassifier(random_state=1).fit(X, y).decision_function(X))


def test_not_fitted_is_everyones() -> None:
    for kind in ALL:
        with pytest.raises(NotFittedError, match=f"this {kind.__name__} is not fitted: call fit first") as caught:
            kind().predict([[1.0]])
        assert isinstance(caught.value, DataError)


def test_a_column_of_labels_warns(seed: int) -> None:
    X, y = cells(seed)
    with pytest.warns(DataConversionWarning, match="column-vector y") as caught:
        found = LRClassifier(random_state=0).fit(X, y[:, None]).decision_function(X)
    assert [warning.filename for warning in caught] == [__file__], "the line of the caller"
    assert np.array_equal(found, LRClassifier(random_state=0).fit(X, y).decision_function(X))


@pytest.mark.parametrize("kind", ALL)
def test_weights_are_copies_in_a_minibatch(kind: Any, seed: int) -> None:
    X, y = cells(seed, 150)
    hot = OneHotEncoder().fit_transform(X)
    weights = np.random.default_rng(seed).integers(0, 4, len(y))
    weights[:2] = 1, 2
    y[:2] = 0, 1
    index = np.repeat(np.arange(len(y)), weights)
    settings = {"random_state": 3, "fields": np.repeat([0, 1], [6, 6]), "shuffle": False, "batch_rows": 4096}
    one = kind(**settings).fit(hot, y, sample_weight=weights)
    other = kind(**settings).fit(hot[index], y[index])
    # Mostly 1e-6. An intercept that begins at its optimum has a gradient of rounding alone, and a step by its sign.
    assert np.allclose(one._scores(hot), other._scores(hot), rtol=0, atol=3e-4)
    for part in (weights > 0, np.full(len(y), 2)):  # rows of weight 0 do not exist; a number counts for all rows
        kept = np.flatnonzero(part)
        found = kind(random_state=3).fit(X[kept], y[kept], sample_weight=2.0)._scores(X)
        assert np.array_equal(kind(random_state=3).fit(X, y, sample_weight=2.0 * (part > 0))._scores(X), found)


def test_weights_are_routed_to_fit_and_score(seed: int) -> None:
    sklearn = pytest.importorskip("sklearn")
    X, y = cells(seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = FMClassifier(random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(OneHotEncoder(), model).fit(X, y, sample_weight=weights)
        found = pipeline.score(X, y, sample_weight=weights)
    right = pipeline.predict(X) == y
    assert found == pytest.approx(np.average(right, weights=weights))
    plain = make_pipeline(OneHotEncoder(), FMClassifier(random_state=0)).fit(X, y)
    assert not np.array_equal(plain.decision_function(X), pipeline.decision_function(X))


@pytest.mark.parametrize("kind", ALL)
def test_bad_weights_are_refused(kind: Any, seed: int) -> None:
    X, y = cells(seed, 20)
    for wrong, message in (
        (np.full(20, -1.0), r"sample_weight of row 0 is -1: it must be at least 0"),
        (np.full(20, np.nan), r"sample_weight holds 20 NaN"),
        (np.zeros(20), r"all sample weights are zero"),
        (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\)"),
    ):
        for method in ("fit", "partial_fit"):
            more = {"classes": [0, 1]} if method == "partial_fit" and hasattr(kind, "predict_proba") else {}
            model = kind()
            with pytest.raises(DataError, match=message):
                getattr(model, method)(X, y, sample_weight=wrong, **more)
            assert not hasattr(model, "model_")
