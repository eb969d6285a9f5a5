"""Answers that must not be wrong in silence: probabilities, models that overflow, the meaning of alpha."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.estimator_tables import classifier, regressor, table

from bitlane import DataError, SGDClassifier, SGDRegressor


def test_probabilities_are_methods_with_their_names(seed: int) -> None:
    X, y = table(seed)
    model = classifier(loss="log_loss").fit(X, y > 5)
    for name in ("predict_proba", "predict_log_proba"):
        for method in (getattr(model, name), getattr(SGDClassifier, name)):
            assert method.__name__ == name and method.__doc__.startswith("Return")
        assert getattr(model, name).__self__ is model
        assert list(inspect.signature(getattr(model, name)).parameters) == ["X"]


@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_other_losses_have_no_probabilities(loss: str, seed: int) -> None:
    X, y = table(seed)
    model = classifier(loss=loss).fit(X, y > 5)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"'SGDClassifier' has no attribute '{name}': .*set loss='log_loss'"):
            getattr(model, name)
    assert hasattr(model.set_params(loss="log_loss"), "predict_proba"), "the loss of now counts"


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities_by_hand(classes: int, seed: int) -> None:
    """Sigmoids of the scores, and for several classes their shares; logarithms also where they round to 0."""
    rng = np.random.default_rng(seed)
    y = np.arange(200) % classes
    model = classifier(loss="log_loss").fit(rng.normal(size=(200, 4)) + y[:, None], y)
    X = rng.normal(size=(50, 4)) * 10.0 ** rng.uniform(-2, 1)
    scores = model.decision_function(X).reshape(len(X), -1)
    each = 1 / (1 + np.exp(-scores))
    each = np.column_stack([1 - each, each]) if classes == 2 else each / each.sum(axis=1, keepdims=True)
    assert np.allclose(model.predict_proba(X), each, rtol=1e-9, atol=1e-12)
    assert np.allclose(np.exp(model.predict_log_proba(X)), each, rtol=1e-9, atol=1e-12)
    far = 1e6 * X
    assert np.isfinite(model.predict_log_proba(far)).all() and model.predict_proba(far).min() < 1e-300
    logarithms = model.predict_log_proba(far)
    assert np.allclose(logarithms[np.arange(len(far)), model.predict(far)], logarithms.max(axis=1), atol=1e-9)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize("bits", [4, 32])
def test_models_that_are_not_finite_are_refused(fit: str, bits: int, seed: int) -> None:
    """Whatever the units of X and y: a finite model that is not 0, or one line; the old model stays."""
    rng = np.random.default_rng(seed)
    X, y = table(seed)
    model = regressor(bits=bits, learning_rate="auto", epochs=4)
    old = model.fit(X, y).coef_.tolist()
    for _ in range(4):
        model.coef_ = np.array(old)
        a, b = rng.uniform(-290, 300, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # of numpy
            model = regressor(bits=bits, learning_rate="auto", epochs=4)
            try:
                getattr(model, fit)(X * 10.0**a, y * 10.0**b)
            except DataError as error:
                assert "\n" not in str(error) and not hasattr(model, "coef_")
            else:
                assert np.isfinite(model.coef_).all() and model.coef_.any() and np.isfinite(model.intercept_).all()
    model = regressor(bits=bits, epochs=4).fit(X, y)
    for scaled, message in (((X * 1e-250, y * 1e100), "model overflows"), ((X * 1e250, y * 1e-90), "underflow to 0")):
        with pytest.raises(DataError, match=message):
            regressor(bits=bits, epochs=4).fit(*scaled)
        if fit == "fit":
            with pytest.raises(DataError, match=message):
                model.fit(*scaled)
            assert model.predict(X).std() > 0


@pytest.mark.parametrize("kind", range(4))
def test_any_units_with_any_option_give_a_finite_model_or_a_line(kind: int, seed: int) -> None:
    """No warning of numpy, and predictions that are finite."""
    rng = np.random.default_rng([seed, kind])
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    y += X @ [1.0, -2.0, 3.0]
    losses = ["squared_error", "squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]
    options: dict[str, Any] = {"bits": int(rng.choice([2, 4, 8, 32])), "loss": str(rng.choice(losses)), "epochs": 30}
    options |= [{}, {"tol": 1e-3}, {"early_stopping": True, "tol": 1e-3}, {"average": True}][kind]
    options |= {"fit_intercept": bool(rng.integers(2)), "draws": [8, "epoch"][rng.integers(2)], "random_state": seed}
    a, b = rng.uniform(-308, 308, 2) if rng.random() < 0.5 else (rng.uniform(-250, 250), rng.uniform(140, 308.2))
    unit = 10.0**b / np.abs(y).max()
    model = SGDRegressor(device="cpu", epsilon=0.01 * 10.0**b, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", category=UserWarning)
        table = X / np.abs(X).max() * 10.0**a
        try:
            model.fit(table, y * unit)
        except DataError as error:
            assert "\n" not in str(error) and not hasattr(model, "coef_")
            assert re.search("overflow|underflow|too small|range", str(error))
            return
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert np.isfinite(model.loss_curve_).all() and np.isfinite(model.predict(table)).all()


def solved(X: np.ndarray, y: np.ndarray, slope: Any, alpha: np.ndarray, curvature: float) -> np.ndarray:
    """Minimise ``mean(loss(X w, y)) + sum(alpha w**2) / 2`` by gradient steps with momentum, in float64."""
    w, before = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    rate = 1 / (curvature * np.linalg.eigvalsh(X.T @ X / len(X))[-1] + alpha.max())
    for k in range(4000):
        ahead = w + (k / (k + 3)) * (w - before)
        before, w = w, ahead - rate * (X.T @ slope(X @ ahead, y) / len(X) + alpha * ahead)
    return w


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_alpha_penalises_scaled_weights(loss: str, seed: int) -> None:
    """The formula of the documentation, against a float64 textbook: ``w = coef_ * scale / label_unit``."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (600, 3)) * [0.5, 2.0, 8.0]
    y = X @ (rng.uniform(0.5, 1.5, 3) / [0.5, 2.0, 8.0]) + 0.3 * rng.normal(size=600)
    settings = {"bits": 32, "sampling": "full", "penalty": "l2", "alpha": 0.05, "epochs": 60, "learning_rate": "auto"}
    if loss == "squared_error":
        model = regressor(**settings, decay=0.9).fit(X, y)
        scaling, unit = model.run_.scaling, model.run_.scaling.label_unit[0]
        rows, labels = (X - X.mean(axis=0)) / scaling.scale, (y - y.mean()) / unit
        w = np.linalg.solve(rows.T @ rows / 600 + 0.05 * np.eye(3), rows.T @ labels / 600)
    else:
        model = classifier(loss=loss, **settings, decay=0.9).fit(X, y > 0)
        scaling, unit = model.run_.scaling, 1.0
        assert scaling.label_unit.tolist() == [1.0]
        rows = np.column_stack([X / scaling.scale, np.ones(600)])
        sign = np.where(y > 0, 1.0, -1.0)
        w = solved(rows, sign, lambda z, s: -s / (1 + np.exp(s * z)), np.array([0.05, 0.05, 0.05, 0]), 0.25)[:3]
    found = model.coef_.ravel() * scaling.scale / unit
    assert np.allclose(found, w, atol=0.02 * np.abs(w).max()), (found, w)
