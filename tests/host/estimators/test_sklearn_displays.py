"""scikit-learn's displays and tools of inspection over bitlane's classifiers and regressors.

What they show is recomputed here from the predictions of the model: the positive class is the one that was asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.sparse import FFMClassifier, FMClassifier, LRClassifier

pytest.importorskip("sklearn", minversion="1.6")
pytest.importorskip("numba")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
import matplotlib
from sklearn import calibration, inspection, metrics, model_selection

CLASSIFIERS = {
    "SGD": lambda: SGDClassifier(loss="log_loss", bits=8, device="cpu", random_state=0),
    "LR": lambda: LRClassifier(random_state=0),
    "FM": lambda: FMClassifier(random_state=0, dim=2),
    "FFM": lambda: FFMClassifier(random_state=0, dim=2, linear="ftrl", fit_intercept=True),
}
KINDS = list(CLASSIFIERS)
LABELS = np.array(["healthy", "ill"])


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    matplotlib.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    matplotlib.pyplot.close("all")


def rows(seed: int) -> tuple[Any, Any]:
    """Column 0 speaks for "ill", column 1 against it, column 2 says nothing; a third is ill."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (300, 3))
    score = X @ [1.5, -1.0, 0.0] + 0.4 * rng.normal(size=300)
    return X, LABELS[(score > np.quantile(score, 2 / 3)).astype(int)]


def fitted(kind: str, seed: int) -> tuple[Any, Any, Any]:
    X, y = rows(seed)
    return CLASSIFIERS[kind]().fit(X, y), X, y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_curves_of_the_class_asked_for(kind: str, label: str, method: str, seed: int) -> None:
    model, X, y = fitted(kind, seed)
    scores = model.predict_proba(X)[:, 1] if method == "predict_proba" else model.decision_function(X)
    scores = scores if label == "ill" else -scores
    positive = y == label
    area = (
        np.mean(scores[positive][:, None] > scores[~positive])
        + np.mean(scores[positive][:, None] == scores[~positive]) / 2
    )
    chosen: dict[str, Any] = {"response_method": method, "pos_label": label}
    roc = metrics.RocCurveDisplay.from_estimator(model, X, y, **chosen)
    assert roc.roc_auc == pytest.approx(area) and area > 0.9
    curve = metrics.PrecisionRecallDisplay.from_estimator(model, X, y, **chosen)
    assert curve.average_precision == pytest.approx(metrics.average_precision_score(positive, scores))
    assert curve.prevalence_pos_label == pytest.approx(positive.mean())
    det = metrics.DetCurveDisplay.from_estimator(model, X, y, drop_intermediate=False, **chosen)
    expected = metrics.det_curve(positive, scores, drop_intermediate=False)
    assert np.allclose(det.fpr, expected[0]) and np.allclose(det.fnr, expected[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", LABELS)
def test_calibration_curve(kind: str, label: str, seed: int) -> None:
    model, X, y = fitted(kind, seed)
    shown = calibration.CalibrationDisplay.from_estimator(model, X, y, n_bins=4, pos_label=label)
    assert np.allclose(shown.y_prob, model.predict_proba(X)[:, list(LABELS).index(label)])
    truth = calibration.calibration_curve(y == label, shown.y_prob, n_bins=4)
    assert np.allclose(shown.prob_true, truth[0]) and np.allclose(shown.prob_pred, truth[1])
    assert shown.prob_true[-1] > 0.7 > 0.3 > shown.prob_true[0]


@pytest.mark.parametrize("kind", KINDS)
def test_confusion_matrix(kind: str, seed: int) -> None:
    model, X, y = fitted(kind, seed)
    shown = metrics.ConfusionMatrixDisplay.from_estimator(model, X, y)
    found = model.predict(X)
    counts = [[np.sum((y == true) & (found == told)) for told in LABELS] for true in LABELS]
    assert shown.confusion_matrix.tolist() == counts and shown.display_labels.tolist() == LABELS.tolist()
    assert np.trace(shown.confusion_matrix) > 250


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict", "auto"])
def test_decision_boundary(kind: str, method: str, seed: int) -> None:
    _, X, y = fitted(kind, seed)
    model = CLASSIFIERS[kind]().fit(X[:, :2], y)
    chosen: dict[str, Any] = {} if method == "predict" else {"class_of_interest": "ill"}
    shown = inspection.DecisionBoundaryDisplay.from_estimator(
        model, X[:, :2], response_method=method, grid_resolution=20, **chosen
    )
    points = np.column_stack([shown.xx0.ravel(), shown.xx1.ravel()])
    if method == "predict":
        expected = (model.predict(points) == "ill").astype(float)
    elif method == "predict_proba":
        expected = model.predict_proba(points)[:, 1]
    else:
        expected = model.decision_function(points)
    assert np.allclose(shown.response.ravel(), expected)
    assert shown.response[0, -1] > shown.response[-1, 0], "to the right and below is ill"


@pytest.mark.parametrize("kind", KINDS)
def test_partial_dependence(kind: str, seed: int) -> None:
    """The mean over the rows with one column set, of the second class; displays draw the same."""
    model, X, _ = fitted(kind, seed)
    for method in ("predict_proba", "decision_function"):
        found = inspection.partial_dependence(model, X, [0], response_method=method, grid_resolution=5)
        for value, mean in zip(found["grid_values"][0], found["average"][0], strict=True):
            moved = X.copy()
            moved[:, 0] = value
            scores = model.predict_proba(moved)[:, 1] if method == "predict_proba" else model.decision_function(moved)
            assert mean == pytest.approx(scores.mean())
    shown = inspection.PartialDependenceDisplay.from_estimator(
        model, X, [0, 1], response_method="predict_proba", grid_resolution=5
    )
    first, second = (result["average"][0] for result in shown.pd_results)
    assert (np.diff(first) > 0).all() and (np.diff(second) < 0).all(), "0 speaks for ill, 1 against"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scoring", [None, "roc_auc", "neg_log_loss"])
def test_permutation_importance(kind: str, scoring: str | None, seed: int) -> None:
    model, X, y = fitted(kind, seed)
    found = inspection.permutation_importance(model, X, y, scoring=scoring, n_repeats=3, random_state=0)
    assert found.importances_mean[0] > found.importances_mean[1] > found.importances_mean[2] + 0.02
    assert abs(found.importances_mean[2]) < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_folds(kind: str, seed: int) -> None:
    """Learning and validation curves, predictions of folds and permutation tests are what the folds give by hand."""
    X, y = rows(seed)
    folds, make = model_selection.KFold(3), CLASSIFIERS[kind]
    by_hand, probabilities = [], np.zeros((300, 2))
    for train, test in folds.split(X):
        model = make().fit(X[train], y[train])
        by_hand.append(np.mean(model.predict(X[test]) == y[test]))
        probabilities[test] = model.predict_proba(X[test])
    assert model_selection.cross_val_score(make(), X, y, cv=folds).tolist() == pytest.approx(by_hand)
    found = model_selection.cross_val_predict(make(), X, y, cv=folds, method="predict_proba")
    assert np.allclose(found, probabilities)
    sizes, _, scores = model_selection.learning_curve(make(), X, y, cv=folds, train_sizes=[0.2, 1.0])
    assert sizes.tolist() == [40, 200] and scores[-1].tolist() == pytest.approx(by_hand)
    usual = make().epochs if make().epochs != "auto" else make().fit(X, y).n_iter_
    epochs: dict[str, Any] = {"param_name": "epochs", "param_range": [1, usual]}
    _, scores = model_selection.validation_curve(make(), X, y, cv=folds, **epochs)
    assert scores[-1].tolist() == pytest.approx(by_hand)
    real, others, _ = model_selection.permutation_test_score(make(), X, y, cv=folds, n_permutations=5, random_state=0)
    assert real == pytest.approx(np.mean(by_hand)) and others.max() < real - 0.1
    shown = model_selection.LearningCurveDisplay.from_estimator(make(), X, y, cv=folds, train_sizes=[0.2, 1.0])
    assert shown.test_scores[-1].tolist() == pytest.approx(by_hand)
    shown = model_selection.ValidationCurveDisplay.from_estimator(make(), X, y, cv=folds, **epochs)
    assert shown.test_scores[-1].tolist() == pytest.approx(by_hand)


def test_prediction_errors(seed: int) -> None:
    X, _ = rows(seed)
    y = X @ [1.0, -2.0, 0.0]
    model = SGDRegressor(bits=8, device="cpu", random_state=0).fit(X, y)
    shown = metrics.PredictionErrorDisplay.from_estimator(model, X, y, subsample=None)
    assert np.array_equal(shown.y_true, y) and np.array_equal(shown.y_pred, model.predict(X))
    assert np.corrcoef(shown.y_true, shown.y_pred)[0, 1] > 0.99
    found = inspection.partial_dependence(model, X, [1], grid_resolution=5)["average"][0]
    slope = np.diff(found) / np.diff(inspection.partial_dependence(model, X, [1], grid_resolution=5)["grid_values"][0])
    assert np.allclose(slope, model.coef_[1])
