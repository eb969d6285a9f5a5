"""scikit-learn's own checks of estimators, and its tools around them."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

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


@parametrize_with_checks([*(kind() for kind in ALL), FFMClassifier(linear="ftrl", fit_intercept=True)])
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
