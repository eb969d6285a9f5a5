"""scikit-learn's own checks of estimators."""

import pickle
import warnings

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST

from bitlane import DataError, LinearClassifier, LinearRegressor, LinearRegressorCV, SGDClassifier, SGDRegressor

pytest.importorskip("sklearn", minversion="1.6")  # before, checks were told of expected failures otherwise
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

LOSSES = ("squared_error", "hinge", "log_loss", "modified_huber")


def expected_failures(estimator):
    """Names of checks, and why the estimator is right to fail them."""
    found = {"check_dtype_object": "a table that cannot be used is a DataError, a ValueError, never a TypeError"}
    if isinstance(estimator, LinearRegressor | LinearRegressorCV):
        return found  # exact
    reason = (
        "the steps of SGD follow the order of the rows, in which copies of a row lie side by side"
        if isinstance(estimator, SGDClassifier | SGDRegressor)
        else "codes of 8 bits lie around the means of the rows as they are given, and the tolerance is 1e-4"
    )
    kinds = ("dense", "sparse")
    return found | {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


@parametrize_with_checks(
    [
        SGDRegressor(device=FASTEST),
        SGDRegressor(loss="huber", device=FASTEST),
        SGDRegressor(penalty="elasticnet", alpha=1e-3, device=FASTEST),
        *(SGDClassifier(loss=loss, device=FASTEST) for loss in LOSSES),
        LinearRegressor(),
        LinearRegressor(penalty="l1", alpha=1e-3),
        LinearClassifier(),
        LinearClassifier(loss="hinge"),
        LinearRegressorCV(alphas=3, cv=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of batches larger than tables of few rows
        check(estimator)


def test_a_cell_that_is_no_number(seed):
    """The check that asks for a TypeError, but for that."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(56, 10)).astype(object)
    y = rng.integers(0, 4, 56)
    for model in (SGDRegressor(device=FASTEST), SGDClassifier(device=FASTEST)):
        model.fit(X, y).predict(X)
        broken = X.copy()
        broken[0, 0] = {"foo": "bar"}
        with pytest.raises(DataError, match="X holds object values: it must contain numbers"):
            model.fit(broken, y)


def test_not_fitted_is_everyones():
    """scikit-learn's error and ours, and workers can send it."""
    with pytest.raises(NotFittedError, match="this SGDClassifier is not fitted: call fit first") as caught:
        SGDClassifier(loss="log_loss").predict_proba([[1.0]])
    assert isinstance(caught.value, DataError) and isinstance(caught.value, AttributeError)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(sent, NotFittedError) and str(sent) == str(caught.value)


def test_a_column_of_labels_warns(seed):
    X = np.random.default_rng(seed).normal(size=(40, 2))
    y = np.arange(40) % 2
    model = SGDClassifier(device=FASTEST, random_state=0)
    with pytest.warns(DataConversionWarning, match="column-vector y") as caught:
        coef = model.fit(X, y[:, None]).coef_
    assert [warning.filename for warning in caught] == [__file__], "the line of the caller"
    assert coef.tolist() == model.fit(X, y).coef_.tolist()
