"""scikit-learn's own checks of estimators, on the emulator."""

import pickle
import warnings

import numpy as np
import pytest

from bitlane import DataError, SGDClassifier, SGDRegressor

pytest.importorskip("sklearn", minversion="1.6")  # before, checks were told of expected failures otherwise
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

LOSSES = ("squared_error", "hinge", "log_loss", "modified_huber")


def expected_failures(estimator):
    """Names of checks, and why the estimator is right to fail them."""
    order = "the steps of SGD follow the order of the rows, in which copies of a row lie side by side"
    return {
        "check_dtype_object": "a table that cannot be used is a DataError, a ValueError, never a TypeError",
        "check_sample_weight_equivalence_on_dense_data": order,
        "check_sample_weight_equivalence_on_sparse_data": order,
    }


@parametrize_with_checks(
    [
        SGDRegressor(device="emulator"),
        SGDRegressor(loss="huber", device="emulator"),
        SGDRegressor(penalty="elasticnet", alpha=1e-3, device="emulator"),
        *(SGDClassifier(loss=loss, device="emulator") for loss in LOSSES),
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
    for model in (SGDRegressor(device="emulator"), SGDClassifier(device="emulator")):
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
    model = SGDClassifier(device="emulator", random_state=0)
    with pytest.warns(DataConversionWarning, match="column-vector y") as caught:
        coef = model.fit(X, y[:, None]).coef_
    assert [warning.filename for warning in caught] == [__file__], "the line of the caller"
    assert coef.tolist() == model.fit(X, y).coef_.tolist()
