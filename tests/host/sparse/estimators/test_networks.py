"""The estimators with layers, on torch."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_weights import EQUIVALENCE

from bitlane.errors import DataError
from bitlane.sparse import SGD, AdaGrad, DeepFMClassifier, DNNClassifier, WideDeepClassifier

pytest.importorskip("numba")
pytest.importorskip("sklearn", minversion="1.6")
from sklearn.utils.estimator_checks import parametrize_with_checks

pytestmark = pytest.mark.torch

ALL = (DNNClassifier, WideDeepClassifier, DeepFMClassifier)


@parametrize_with_checks(
    [kind(batch_rows=16, epochs=20) for kind in ALL], expected_failed_checks=lambda estimator: EQUIVALENCE
)
def test_checks(estimator: Any, check: Any) -> None:
    if check.func.__name__ == "check_methods_subset_invariance":
        pytest.skip("torch multiplies other numbers of rows in another order, and the check allows 1e-7: see below")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("kind", ALL)
def test_scores_of_a_part_are_those_of_the_whole(kind: Any, seed: int) -> None:
    """The check that is skipped, within the precision of float32."""
    X, y = products(seed)
    model = kind(fields=np.repeat([0, 1], 4), epochs=1, random_state=seed).fit(X, y)
    parts = [model.decision_function(X[start : start + 7]) for start in range(0, 210, 7)]
    assert np.concatenate(parts) == pytest.approx(model.decision_function(X[:210]), rel=1e-4, abs=1e-4)


def products(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of categories, one-hot, whose combination decides the label."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, (2000, 2))
    X = np.zeros((2000, 8), np.float32)
    X[np.arange(2000), cells[:, 0]] = X[np.arange(2000), 4 + cells[:, 1]] = 1
    return X, (cells[:, 0] + cells[:, 1]) % 2


@pytest.mark.parametrize("kind", ALL)
def test_networks_find_combinations(kind: Any, seed: int) -> None:
    X, y = products(seed)
    fields = np.repeat([0, 1], 4)
    model = kind(batch_rows=32, epochs=20, fields=fields, random_state=seed).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.model_.spec.fields == 2


@pytest.mark.parametrize("kind", ALL)
def test_two_halves_are_one_pass_and_pickles_go_on(kind: Any, seed: int) -> None:
    """Without an intercept, which the first call sets by its rows."""
    X, y = products(seed)
    settings = {"random_state": 1, "fields": np.repeat([0, 1], 4), "batch_rows": 50, "hidden": (8,)}
    settings["fit_intercept"] = False
    whole = kind(**settings).partial_fit(X, y, classes=[0, 1])
    half = kind(**settings).partial_fit(X[:500], y[:500], classes=[0, 1])
    again = pickle.loads(pickle.dumps(half)).partial_fit(X[500:], y[500:])
    expected = whole.decision_function(X)
    assert np.array_equal(expected, half.partial_fit(X[500:], y[500:]).decision_function(X))
    assert np.array_equal(expected, again.decision_function(X))
    assert np.array_equal(expected, kind(**settings, epochs=1, shuffle=False).fit(X, y).decision_function(X))


def test_parameters_reach_the_model() -> None:
    X, y = products(0)
    settings = {"fields": np.repeat([0, 1], 4), "hidden": [5, 4], "dim": 3, "batch_rows": 500, "epochs": 1}
    model = DeepFMClassifier(optimizer=("sgd", AdaGrad(0.2)), dense_optimizer=SGD(0.3), **settings)
    spec = model.fit(X, y).model_.spec
    assert (spec.linear, spec.factors, spec.dense) == (SGD(), AdaGrad(0.2), SGD(0.3))
    assert (spec.hidden, spec.dim, spec.batch_rows) == ((5, 4), 3, 500)
    for parameters, message in (
        ({"hidden": 5}, r"hidden=5: give the sizes of the hidden layers, such as \(64, 32\)"),
        ({"batch_rows": 1}, "dnn learns in minibatches"),
        ({"dense_optimizer": "adam"}, "dense_optimizer='adam': give 'ftrl'"),
        ({"device": "nowhere"}, "nowhere"),
    ):
        with pytest.raises((DataError, RuntimeError), match=message):
            DNNClassifier(**parameters).fit(X, y)
