"""Losses and accuracies of models, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.evaluation.metrics import accuracies_of, constant_loss, least_loss, losses_of


@pytest.fixture
def models(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X [5000, 3], coefficients [4, 3] and intercepts [4]."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5000, 3)), rng.normal(size=(4, 3)), rng.normal(size=4)


def test_losses(models: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> None:
    X, coefficients, intercepts = models
    scores = X @ coefficients.T + intercepts
    y = np.random.default_rng(seed).normal(size=5000)
    np.testing.assert_allclose(losses_of(X, y, coefficients, intercepts), np.mean((scores - y[:, None]) ** 2, axis=0))
    y = np.sign(y)
    margins = scores * y[:, None]
    hinge, logistic = (losses_of(X, y, coefficients, intercepts, loss) for loss in ("hinge", "log_loss"))
    np.testing.assert_allclose(hinge, np.mean(np.maximum(0, 1 - margins), axis=0))
    np.testing.assert_allclose(logistic, np.mean(np.log(1 + np.exp(-margins)), axis=0))
    assert losses_of(X, y, 1e6 * coefficients, intercepts, "log_loss").max() < 1e8  # and no overflow


def test_accuracies(models: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    X, coefficients, intercepts = models
    y = np.where(X @ coefficients[1] + intercepts[1] > 0, 1.0, -1.0)
    found = accuracies_of(X, y, coefficients, intercepts)
    assert found[1] == 1
    assert found[0] == np.mean(np.sign(X @ coefficients[0] + intercepts[0]) == y)
    assert accuracies_of(X, y, np.zeros((1, 3)), np.zeros(1))[0] == np.mean(y < 0)


def test_least_loss_equals_lstsq(models: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> None:
    X, coefficients, _ = models
    y = X @ coefficients[0] + 7 + np.random.default_rng(seed).normal(size=5000)
    ones = np.c_[X, np.ones(len(X))]
    best = np.mean((ones @ np.linalg.lstsq(ones, y, rcond=None)[0] - y) ** 2)
    assert least_loss(X, y) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("positive", [1, 50, 80])
@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_the_best_constant(loss: str, positive: int) -> None:
    y = np.where(np.arange(100) < positive, 1.0, -1.0)
    constants = np.linspace(-6, 6, 12001)
    tried = losses_of(np.zeros((100, 1)), y, np.zeros((len(constants), 1)), constants, loss)
    assert constant_loss(y, loss) == pytest.approx(tried.min(), abs=1e-5)


def test_the_best_constant_for_one_class() -> None:
    assert constant_loss(np.ones(5), "log_loss") == 0
