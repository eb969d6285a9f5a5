"""SGD in float64 against textbook loops over the rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.encode_textbook import scale_of

from bitlane.evaluation.baseline import float_models
from bitlane.evaluation.metrics import least_loss, losses_of
from bitlane.evaluation.schedules import TrainingSchedule


@pytest.fixture
def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy linear data [200, 5] in units far from 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0, 5, -3, 100, 0], [1, 2, 0.1, 50, 1e-3], (200, 5))
    return X, X @ [3, -1, 20, 0.1, 500] + 7 + rng.normal(0, 0.5, 200)


def test_squared_error_equals_loops_over_rows(table: tuple[np.ndarray, np.ndarray]) -> None:
    """The last batch is partial."""
    X, y = table
    v = (X - X.mean(0)) / scale_of(np.abs(X - X.mean(0)).max(0))
    scale = np.abs(y - y.mean()).max()
    labels = (y - y.mean()) / scale
    weights, rate, expected = np.zeros(5), 0.3, []
    for _ in range(3):
        for start in range(0, 200, 7):
            step = np.zeros(5)
            for row in range(start, min(start + 7, 200)):
                step += (v[row] @ weights - labels[row]) * v[row]
            weights -= rate / 7 * step
        rate *= 0.7
        expected.append(np.mean((v @ weights - labels) ** 2) * scale**2)
    models = float_models(X, y, TrainingSchedule(epochs=3, batch_size=7, learning_rate=0.3, decay=0.7))
    np.testing.assert_allclose(losses_of(X, y, *models), expected, rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_margins_equal_loops_over_rows(table: tuple[np.ndarray, np.ndarray], loss: str, fit_intercept: bool) -> None:
    X, y = table
    y = np.where(y > np.median(y), 1.0, -1.0)
    center = X.mean(0) if fit_intercept else np.zeros(5)
    scale = scale_of(np.abs(X - center).max(0))
    weights, intercept, rate, expected = np.zeros(5), 0.0, 0.3, []
    for _ in range(3):
        for start in range(0, 200, 7):
            step, shift = np.zeros(5), 0.0
            for row in range(start, min(start + 7, 200)):
                v = (X[row] - center) / scale
                margin = y[row] * (v @ weights + intercept)
                slope = -y[row] / (1 + np.exp(margin)) if loss == "log_loss" else -y[row] * (margin < 1)
                step, shift = step + slope * v, shift + slope
            weights = weights - rate / 7 * step
            intercept -= rate / 7 * shift if fit_intercept else 0.0
        rate *= 0.7
        expected.append([*(weights / scale), intercept - weights / scale @ center])
    schedule = TrainingSchedule(3, batch_size=7, learning_rate=0.3, decay=0.7, loss=loss, fit_intercept=fit_intercept)
    coefficients, intercepts = float_models(X, y, schedule)
    np.testing.assert_allclose(np.column_stack([coefficients, intercepts]), expected, rtol=1e-9)


def test_the_least_loss_is_reached(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    models = float_models(X, y, TrainingSchedule(epochs=200, learning_rate=0.5, decay=0.99))
    assert losses_of(X, y, *models)[-1] == pytest.approx(least_loss(X, y), rel=0.3)


def test_equal_labels_have_zero_loss() -> None:
    models = float_models(np.eye(3), np.ones(3), TrainingSchedule(epochs=2))
    assert losses_of(np.eye(3), np.ones(3), *models).tolist() == [0.0, 0.0]


def test_divergence_is_not_an_error(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    models = float_models(X, y, TrainingSchedule(epochs=300, learning_rate=100.0))
    assert not np.isfinite(losses_of(X, y, *models)[-1])
