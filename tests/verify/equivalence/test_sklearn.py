"""A sample of scikit-learn's own checks of estimators on the RTL: those that train, refit and copy."""

import warnings

import pytest

from bitlane import SGDClassifier, SGDRegressor

estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")
BOTH = (
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
)
CHECKS = [
    *((SGDRegressor, name) for name in (*BOTH, "check_regressors_train", "check_regressor_multioutput")),
    *((SGDClassifier, name) for name in (*BOTH, "check_classifiers_train", "check_class_weight_classifiers")),
]


@pytest.mark.parametrize(("kind", "name"), CHECKS)
def test_checks(kind, name):
    loss = "log_loss" if kind is SGDClassifier else "squared_error"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of batches larger than tables of few rows
        getattr(estimator_checks, name)(kind.__name__, kind(loss=loss, device="rtl"))
