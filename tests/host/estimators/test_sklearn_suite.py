"""scikit-learn's own tests of SGD, imported from the installed package, at 32 bits.

A test of `ABSENT` has to fail, and all others have to pass.
"""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

sklearn = pytest.importorskip("sklearn", minversion="1.9")
if not sklearn.__version__.startswith("1.9."):
    pytest.skip("the list is that of scikit-learn 1.9", allow_module_level=True)
pytest.importorskip("joblib")
pytest.importorskip("pandas")

from tests.helpers.sklearn_sgd import adapted_tests  # noqa: E402

pytestmark = pytest.mark.slow

ABSENT = {  # patterns of names; the parameters of a test follow a colon
    "averages are those of models after epochs, not after rows": [
        "test_average_*",
        "test_late_onset_averaging_reached*",
        "test_plain_has_no_average_attr*",
        "test_sgd_averaged_*",
        "test_sgd_multiclass_average*",
    ],
    "another split, message or callback of early stopping": [
        "test_sgd_error_on_zero_validation_weight",
        "test_tol_parameter",
        "test_validation_mask_correctly_subsets",
        "test_validation_set_not_used_for_training*",
    ],
    "seeds choose the order of rows alone, which changes less": ["test_sgd_random_state:SGDClassifier"],
    "weights of rows are copies, those of classes steps": ["test_weights_multiplied*"],
    "bitlane has no class `loss_functions`": [
        "test_loss_function_epsilon*",
        "test_sgd_predict_proba_method_access*",
    ],
    "the losses of residuals are those of regressors": ["test_regression_losses*"],
    "the least probability of several of 0 is another one": ["test_sgd_proba:Sparse*"],
    "columns are scaled, so that large ones do not overflow": ["test_underflow_or_overflow"],
    "bitlane has no one-class SVM": [
        "test_*oneclass*",
        "test_ocsvm_vs_sgdocsvm",
        "test_sgd_one_class_svm_*",
        "test_*:*OneClassSVM*",
    ],
    "steps follow a decay for each epoch, not the number of rows": [
        "test_learning_rate_PA_raises*",
        "test_partial_fit_equal_fit*:adaptive*",
        "test_partial_fit_equal_fit*:invscaling*",
        "test_partial_fit_equal_fit*:optimal*",
        "test_power_t_limits*",
    ],
    "the penalty is that of scaled columns, and takes a limited share of a weight in a batch": [
        "test_elasticnet_convergence*",
        "test_large_regularization*",
        "test_sgd_huber_fit*",
        "test_sgd_l1:*",
    ],
    "learning rates are those of scaled columns": [
        "test_balanced_weight*",
        "test_class_weights*",
        "test_sgd_least_squares_fit*",
    ],
    "regressors have several targets": ["test_input_format:*Regressor"],
    "coefficients are float64": ["test_sgd_dtype_match:float32*"],
    "another message of partial_fit": ["test_partial_fit_weight_class_balanced*"],
}
SKIPPED = {
    "test_SGDClassifier_fit_for_all_backends": "1,000 epochs without tol take minutes",
    "test_loss_[!f]*": "of scikit-learn's loss functions, not of an estimator",
    "test_gradient_squared_hinge": "of scikit-learn's loss functions, not of an estimator",
}
TESTS = {
    name: test
    for name, test in vars(adapted_tests()).items()
    if name.startswith("test_")
    and not (any(fnmatch(name, each) for each in SKIPPED) and "function_epsilon" not in name)
}
globals().update(TESTS)


@pytest.fixture
def global_random_seed(seed: int) -> int:
    """scikit-learn's fixture of this name."""
    return seed


@pytest.fixture(autouse=True)
def expected(request: pytest.FixtureRequest) -> None:
    """Mark a test of the list: it has to fail."""
    name = request.node.name.replace("[", ":").removesuffix("]")
    for reason, patterns in ABSENT.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def test_each_entry_of_the_list_names_a_test() -> None:
    for patterns in (*ABSENT.values(), SKIPPED):
        for pattern in patterns:
            bare = pattern.partition(":")[0]
            assert any(fnmatch(name, bare) for name in vars(adapted_tests())), pattern
