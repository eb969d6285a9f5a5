"""The range of the weights: large enough for tables whose columns vary little, small for a rounded model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from tests.helpers.emulators import FASTEST

from bitlane import SGDClassifier, SGDRegressor
from bitlane.errors import DataError
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.weight_range import least_squares


def spread_columns(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Columns whose standard deviation is a sixteenth to a half of their largest value, in random units."""
    columns = []
    for spread in 2.0 ** -rng.uniform(1, 4, int(rng.integers(3, 9))):
        column = rng.normal(size=rows)
        column *= min(1.0, 1 / np.abs(column).max() / spread) if spread > 0.4 else 1.0
        column[: max(1, rows // 500)] = np.sign(column[: max(1, rows // 500)]) / spread
        columns.append(column * 10.0 ** rng.uniform(-3, 3))
    return np.column_stack(columns)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_log_loss_is_near_the_optimum_whatever_the_spread_of_columns(seed: int, bits: int) -> None:
    """Weights of columns that vary little in their range are far above 8; the score equals that of lbfgs."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        X = spread_columns(rng, 4_000)
        units = (X - X.mean(axis=0)) / X.std(axis=0)
        scores = units @ rng.normal(size=X.shape[1]) + rng.normal(0, 0.3, len(X))
        y = (scores > np.quantile(scores, rng.uniform(0.2, 0.8))).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = SGDClassifier(bits, loss="log_loss", epochs=60, decay=0.93, device="cpu", random_state=seed)
            model.fit(X[:3_000], y[:3_000])
        best = LogisticRegression(C=1e4, max_iter=5_000).fit(units[:3_000], y[:3_000])
        assert model.score(X[3_000:], y[3_000:]) > best.score(units[3_000:], y[3_000:]) - 0.02
        assert model.run_.scaling.weight_exponent > 0


def test_a_table_that_needs_no_larger_weights_keeps_the_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (2_000, 5))
    y = X @ rng.normal(size=5) + rng.normal(0, 0.1, 2_000)
    assert SGDRegressor(device="cpu", epochs=1).fit(X, y).run_.scaling.weight_exponent == 0


@pytest.mark.parametrize("penalty", [None, "l2", "l1"])
def test_the_exponent_changes_no_mathematics(seed: int, penalty: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full precision with another range of the weights: the same model but for the rounding of weights."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (600, 7))
    y = X @ rng.normal(size=7) + rng.normal(0, 0.1, 600)
    options: dict[str, Any] = {
        **{"bits": 32, "sampling": "full", "learning_rate": 0.1, "epochs": 30, "decay": 0.9, "device": FASTEST},
        **{"penalty": penalty, "alpha": 0.01, "random_state": 0},
    }
    models = []
    for exponent in (-2, 0, 3):
        monkeypatch.setattr("bitlane.training.weight_range._exponent", lambda largest, exponent=exponent: exponent)
        if exponent < 0:
            monkeypatch.setattr("bitlane.training.weight_range.max", lambda *values: values[-1], raising=False)
        models.append(SGDRegressor(**options).fit(X, y))
        assert models[-1].run_.scaling.weight_exponent == exponent
        monkeypatch.undo()
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=2e-4)


def test_least_squares_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    V, y = rng.normal(size=(300, 20)), rng.normal(size=(300, 2))
    np.testing.assert_allclose(least_squares(V, y), np.linalg.lstsq(V, y, rcond=None)[0], atol=1e-6)
    assert not least_squares(np.zeros((4, 3)), np.ones((4, 1))).any()


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_a_resumed_training_has_the_range_of_one_that_never_stopped(seed: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    X = spread_columns(rng, 500)
    y = (X @ (1 / X.std(axis=0)) > 0).astype(int)
    options: dict[str, Any] = {"loss": loss, "device": "cpu", "random_state": seed, "learning_rate": 0.5}
    half = SGDClassifier(epochs=2, **options).fit(X, y)
    resumed = SGDClassifier(epochs=5, **options).fit(X, y, resume=half.run_.checkpoint())
    whole = SGDClassifier(epochs=5, **options).fit(X, y)
    assert resumed.coef_.tolist() == whole.coef_.tolist()


@pytest.mark.parametrize("bits", [6, 8])
def test_samples_model_and_gradient_of_few_bits_reach_the_loss_of_32(seed: int, bits: int) -> None:
    """ZipML, figure 4, on tables of any units and noise: at most 2 % above ridge regression."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    X = rng.uniform(-1, 1, (6_000, n)) * 10.0 ** rng.uniform(-2, 2, n)
    y = (X / X.std(axis=0)) @ rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)
    y += rng.normal(0, rng.uniform(0.1, 1) * y.std(), len(y))
    model = SGDRegressor(bits, model_bits=bits, gradient_bits=bits, device="cpu", random_state=seed).fit(X, y)
    best = Ridge(1e-6).fit(X / X.std(axis=0), y).predict(X / X.std(axis=0))
    assert np.mean((model.predict(X) - y) ** 2) < 1.02 * np.mean((best - y) ** 2)


def test_the_scaling_keeps_the_exponent_both_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 2))
    scaling = fit_scaling(X, y)
    larger = type(scaling)(**{**scaling.__dict__, "weight_exponent": 3})
    coef, intercept = rng.normal(size=(2, 4)), scaling.label_center - rng.normal(size=(2, 4)) @ scaling.center
    np.testing.assert_allclose(8 * larger.weights(coef, intercept), scaling.weights(coef, intercept))
    np.testing.assert_allclose(larger.coefficients(larger.weights(coef, intercept))[0], coef)


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_that_is_not_positive_is_refused(rate: float) -> None:
    X = np.arange(20.0).reshape(10, 2)
    for others in ({}, {"model_bits": 8, "gradient_bits": 8}):
        with pytest.raises(DataError, match=r"learning_rate / batch_size is .*: it must be above 0"):
            SGDRegressor(learning_rate=rate, batch_size=2, device=FASTEST, **others).fit(X, X[:, 0])


def test_labels_without_noise_leave_a_rate_for_a_rounded_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (3_000, 5))
    y = X @ rng.normal(size=5)
    options: dict[str, Any] = {"bits": 8, "model_bits": 6, "gradient_bits": 6, "device": "cpu", "random_state": 0}
    assert SGDRegressor(epochs=60, **options).fit(X, y).score(X, y) > 0.98


def test_a_rounded_gradient_alone_does_not_narrow_the_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = spread_columns(rng, 1_000)
    y = (X @ (1 / X.std(axis=0)) > 0).astype(int)
    plain, rounded = (
        SGDClassifier(bits=8, gradient_bits=bits, epochs=2, learning_rate=2.0, device="cpu", random_state=0).fit(X, y)
        for bits in (None, 12)
    )
    assert rounded.run_.scaling.weight_exponent >= plain.run_.scaling.weight_exponent > 0
