"""scikit-learn's meta-estimators and searches over bitlane's estimators, held against the same tool over its SGD."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.sparse import FFMClassifier, FMClassifier, FMRegressor, LRClassifier, LRRegressor

pytest.importorskip("sklearn", minversion="1.6")
pytest.importorskip("pandas")
pytest.importorskip("numba")
pytest.importorskip("pyarrow")
import pandas
import sklearn
from sklearn import calibration, ensemble, feature_selection, linear_model, model_selection, multiclass, multioutput
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

CLOSE = 0.07  # of accuracy or R squared, below the same tool over scikit-learn's SGD
Tool = Callable[[Any], Any]

OURS: dict[str, Callable[..., Any]] = {
    "SGD": lambda **p: SGDClassifier(loss="log_loss", bits=8, device="cpu", random_state=0, **p),
    "LR": lambda **p: LRClassifier(random_state=0, **p),
    "FM": lambda **p: FMClassifier(random_state=0, dim=2, **p),
    "FFM": lambda **p: FFMClassifier(random_state=0, dim=2, linear="ftrl", fit_intercept=True, **p),
}
REGRESSORS: dict[str, Callable[..., Any]] = {
    "SGD": lambda **p: SGDRegressor(bits=8, device="cpu", random_state=0, **p),
    "LR": lambda **p: LRRegressor(random_state=0, **p),
    "FM": lambda **p: FMRegressor(random_state=0, dim=2, **p),
}

KINDS = ["SGD", "LR", *(pytest.param(name, marks=pytest.mark.slow) for name in ("FM", "FFM"))]


def classifier_of_sklearn(**parameters: Any) -> Any:
    return linear_model.SGDClassifier(loss="log_loss", random_state=0, **parameters)


def regressor_of_sklearn(**parameters: Any) -> Any:
    return linear_model.SGDRegressor(random_state=0, **parameters)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tools warn of small folds, and scikit-learn's SGD of convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rows(seed: int, classes: int = 2, count: int = 1000) -> tuple[Any, Any]:
    """Six columns. Two classes, "a" and "b": the first three decide. More: each class is far out in its own column."""
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d"])
    if classes > 2:
        labels = rng.integers(0, classes, count)
        return rng.normal(size=(count, 6)) + 4 * np.eye(6)[labels], names[labels]
    X = rng.uniform(-1.7, 1.7, (count, 6))
    score = X[:, :3] @ [1.5, -1.0, 1.0] + 0.4 * rng.normal(size=count)
    return X, names[(score > 0).astype(int)]


def numbers(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (500, 6))
    y = X[:, :3] @ [1.0, -0.5, 0.5] + 0.2 * rng.normal(size=500)
    return X, y


def halves(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    return X[:350], X[350:], y[:350], y[350:]


BINARY: dict[str, Tool] = {
    "stacking": lambda m: ensemble.StackingClassifier([("m", m), ("nb", GaussianNB())], cv=3),
    "stacking of classes": lambda m: ensemble.StackingClassifier([("m", m)], cv=3, stack_method="predict_proba"),
    "soft voting": lambda m: ensemble.VotingClassifier([("m", m), ("nb", GaussianNB())], voting="soft"),
    "hard voting": lambda m: ensemble.VotingClassifier([("m", m), ("nb", GaussianNB())]),
    "bagging": lambda m: ensemble.BaggingClassifier(m, n_estimators=4, random_state=0),
    "sigmoid calibration": lambda m: calibration.CalibratedClassifierCV(m, cv=3),
    "isotonic calibration": lambda m: calibration.CalibratedClassifierCV(m, cv=3, method="isotonic"),
    "fixed threshold": lambda m: model_selection.FixedThresholdClassifier(
        m, threshold=0.5, response_method="predict_proba", pos_label="b"
    ),
    "tuned threshold": lambda m: model_selection.TunedThresholdClassifierCV(m, cv=3, scoring="accuracy"),
    "self-training": lambda m: SelfTrainingClassifier(m, max_iter=2),
    "sequential selection": lambda m: make_pipeline(
        feature_selection.SequentialFeatureSelector(m, n_features_to_select=3, cv=2), m
    ),
    "grid search": lambda m: model_selection.GridSearchCV(m, {"fit_intercept": [True, False]}, cv=2),
    "random search": lambda m: model_selection.RandomizedSearchCV(
        m, {"shuffle": [True, False]}, n_iter=2, cv=2, random_state=0
    ),
    "halving grid": lambda m: model_selection.HalvingGridSearchCV(
        m, {"fit_intercept": [True, False]}, cv=2, min_resources=80, random_state=0
    ),
    "halving random": lambda m: model_selection.HalvingRandomSearchCV(
        m, {"shuffle": [True, False]}, cv=2, min_resources=80, random_state=0
    ),
    "pipeline": lambda m: make_pipeline(StandardScaler(), m),
    "one against the rest of two": lambda m: multiclass.OneVsRestClassifier(m),
}
SEVERAL: dict[str, Tool] = {
    "one against the rest": lambda m: multiclass.OneVsRestClassifier(m),
    "one against one": lambda m: multiclass.OneVsOneClassifier(m),
    "output code": lambda m: multiclass.OutputCodeClassifier(m, code_size=4, random_state=0),
    "bagging of pairs": lambda m: ensemble.BaggingClassifier(multiclass.OneVsOneClassifier(m), 3, random_state=0),
}
WITH_COEFFICIENTS: dict[str, Tool] = {
    "recursive elimination": lambda m: feature_selection.RFE(m, n_features_to_select=3),
    "recursive elimination with folds": lambda m: feature_selection.RFECV(m, min_features_to_select=3, cv=2),
    "selection from a model": lambda m: make_pipeline(
        feature_selection.SelectFromModel(m, max_features=3, threshold=-np.inf), m
    ),
}
NUMBERS: dict[str, Tool] = {
    "stacking": lambda m: ensemble.StackingRegressor([("m", m)], cv=3),
    "voting": lambda m: ensemble.VotingRegressor([("m", m), ("again", m)]),
    "bagging": lambda m: ensemble.BaggingRegressor(m, n_estimators=4, random_state=0),
    "AdaBoost": lambda m: ensemble.AdaBoostRegressor(m, n_estimators=3, random_state=0),
    "RANSAC": lambda m: linear_model.RANSACRegressor(m, min_samples=100, max_trials=3, random_state=0),
    "a transformed target": lambda m: TransformedTargetRegressor(m, transformer=StandardScaler()),
    "grid search": lambda m: model_selection.GridSearchCV(m, {"fit_intercept": [True, False]}, cv=2),
    "pipeline": lambda m: make_pipeline(StandardScaler(), m),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", BINARY)
def test_two_classes(tool: str, kind: str, seed: int) -> None:
    X_train, X_test, y_train, y_test = halves(*rows(seed))
    if tool == "self-training":
        y_train = np.where(np.arange(350) % 3, np.where(y_train == "b", 1, 0), -1)
        y_test = np.where(y_test == "b", 1, 0)
    ours, theirs = (BINARY[tool](make()).fit(X_train, y_train) for make in (OURS[kind], classifier_of_sklearn))
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - CLOSE
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    if hasattr(ours, "predict_proba"):
        found = ours.predict_proba(X_test)
        assert found.shape == (650, 2) and np.allclose(found.sum(axis=1), 1)
        assert np.corrcoef(found[:, 1], theirs.predict_proba(X_test)[:, 1])[0, 1] > 0.7, "of the same class"


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("tool", SEVERAL)
def test_several_classes(tool: str, kind: str, seed: int) -> None:
    X_train, X_test, y_train, y_test = halves(*rows(seed, classes=3))
    ours, theirs = (SEVERAL[tool](make()).fit(X_train, y_train) for make in (OURS[kind], classifier_of_sklearn))
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - CLOSE
    assert ours.predict(X_test).dtype == y_test.dtype and ours.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("tool", WITH_COEFFICIENTS)
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_tools_that_read_coefficients(tool: str, task: str, seed: int) -> None:
    """They find the three columns that decide."""
    X, y = rows(seed) if task == "classes" else numbers(seed)
    model = WITH_COEFFICIENTS[tool]((OURS if task == "classes" else REGRESSORS)["SGD"]()).fit(X, y)
    selector = model[0] if hasattr(model, "steps") else model
    chosen = np.flatnonzero(selector.get_support())
    assert {0, 1, 2} <= set(chosen) and (len(chosen) == 3 or "folds" in tool)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("tool", NUMBERS)
def test_numbers(tool: str, kind: str, seed: int) -> None:
    X_train, X_test, y_train, y_test = halves(*numbers(seed))
    ours, theirs = (NUMBERS[tool](make()).fit(X_train, y_train) for make in (REGRESSORS[kind], regressor_of_sklearn))
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - CLOSE
    assert np.corrcoef(ours.predict(X_test), theirs.predict(X_test))[0, 1] > 0.98


def test_ransac_leaves_out_the_outliers(seed: int) -> None:
    X, y = numbers(seed)
    y[:50] += 30
    model = linear_model.RANSACRegressor(REGRESSORS["SGD"](), min_samples=20, max_trials=60, random_state=seed).fit(
        X, y
    )
    assert not model.inlier_mask_[:50].any() and model.score(X[50:], y[50:]) > 0.8


@pytest.mark.parametrize("kind", ["SGD", "LR"])
def test_several_outputs(kind: str, seed: int) -> None:
    X, y = rows(seed, classes=4)
    both = np.column_stack([np.isin(y, ["b", "d"]), np.isin(y, ["c", "d"])]).astype(int)
    for tool in (multioutput.MultiOutputClassifier, multioutput.ClassifierChain):
        ours, theirs = (tool(make()).fit(X, both).predict(X) for make in (OURS[kind], classifier_of_sklearn))
        assert np.all((ours == both).mean(axis=0) > (theirs == both).mean(axis=0) - CLOSE)
    X, y = numbers(seed)
    both = np.column_stack([y, 0.5 - 0.3 * y])
    for tool in (multioutput.MultiOutputRegressor, multioutput.RegressorChain):
        ours, theirs = (tool(make()).fit(X, both).score(X, both) for make in (REGRESSORS[kind], regressor_of_sklearn))
        assert ours > theirs - CLOSE


def test_calibration_of_a_fitted_model(seed: int) -> None:
    X_train, X_test, y_train, y_test = halves(*rows(seed))
    model = OURS["SGD"]().fit(X_train, y_train)
    calibrated = calibration.CalibratedClassifierCV(FrozenEstimator(model)).fit(X_test, y_test)
    assert np.array_equal(model.coef_, FrozenEstimator(model).coef_)
    order = model.predict_proba(X_test)[:, 1].argsort()
    assert (np.diff(calibrated.predict_proba(X_test)[order, 1]) >= -1e-12).all(), "a rising map of the probabilities"


@pytest.mark.parametrize("threshold", [0.1, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_threshold_is_that_of_the_class_asked_for(kind: str, threshold: float, seed: int) -> None:
    X, y = rows(seed)
    model = OURS[kind]().fit(X, y)
    for position, label in enumerate(["a", "b"]):
        wrapped = model_selection.FixedThresholdClassifier(
            FrozenEstimator(model), threshold=threshold, pos_label=label, response_method="predict_proba"
        ).fit(X, y)
        expected = model.predict_proba(X)[:, position] >= threshold
        assert np.array_equal(wrapped.predict(X) == label, expected)


def test_columns_and_output_frames(seed: int) -> None:
    X, y = rows(seed)
    frame = pandas.DataFrame(X, columns=list("abcdef")).assign(town=np.where(y == "b", "Rome", "Bern"))
    frame.loc[::5, "town"] = "Oslo"
    columns = make_column_transformer(
        (StandardScaler(), list("abc")), (OneHotEncoder(sparse_output=False), ["town"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    ours, theirs = (make_pipeline(columns, make()).fit(frame, y) for make in (OURS["SGD"], classifier_of_sklearn))
    assert ours[-1].feature_names_in_.tolist() == theirs[-1].feature_names_in_.tolist()
    assert ours.score(frame, y) > theirs.score(frame, y) - CLOSE


@pytest.mark.parametrize("classes", [2, 3])
def test_adaboost_of_classes(classes: int, seed: int) -> None:
    X_train, X_test, y_train, y_test = halves(*rows(seed, classes))
    ours, theirs = (
        ensemble.AdaBoostClassifier(make(), n_estimators=5, random_state=0).fit(X_train, y_train)
        for make in (OURS["SGD"], classifier_of_sklearn)
    )
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - CLOSE


@pytest.mark.parametrize("fitted_with_weights", [False, True])
def test_weights_are_routed(fitted_with_weights: bool, seed: int) -> None:
    X, y = rows(seed)
    weights = np.random.default_rng(seed).exponential(size=len(X))
    folds = model_selection.KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        model = OURS["SGD"]().set_score_request(sample_weight=True).set_fit_request(sample_weight=fitted_with_weights)
        found = model_selection.cross_validate(model, X, y, params={"sample_weight": weights}, cv=folds)
    for score, (train, test) in zip(found["test_score"], folds.split(X), strict=True):
        fitted = OURS["SGD"]().fit(X[train], y[train], weights[train] if fitted_with_weights else None)
        assert score == pytest.approx(np.average(fitted.predict(X[test]) == y[test], weights=weights[test]))
