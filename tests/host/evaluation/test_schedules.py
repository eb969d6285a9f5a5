"""Suggested learning rates: stable, and smaller where draws are noisier."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.evaluation.baseline import float_models
from bitlane.evaluation.metrics import constant_loss, losses_of
from bitlane.evaluation.schedules import LARGEST, Schedule, suggest_learning_rate


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
@pytest.mark.parametrize("features", [1, 8, 100])
def test_suggested_rates_are_stable(seed: int, features: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, features)) @ rng.normal(size=(features, features))
    y = X @ rng.normal(size=features) + rng.normal(size=300)
    y = y if loss == "squared_error" else np.where(y > 0, 1.0, -1.0)
    rate = suggest_learning_rate(X, 16, loss=loss)
    assert 0 < rate <= LARGEST * (4 if loss == "log_loss" else 1)
    models = float_models(X, y, Schedule(learning_rate=rate, decay=0.8, loss=loss))
    loss_end = losses_of(X, y, *models, loss)[-1]
    assert loss_end < (1.05 if features == 1 else 0.7) * constant_loss(y, loss)  # one column may carry no signal


def test_flatter_losses_take_larger_steps(seed: int) -> None:
    X = np.random.default_rng(seed).normal(3, 2, size=(300, 30))
    rates = [suggest_learning_rate(X, 16, loss=loss) for loss in ("squared_error", "hinge", "log_loss")]
    assert rates[1] < rates[0] < rates[2]  # a hinge model also learns an intercept
    assert rates[2] == pytest.approx(4 * rates[1], rel=0.2)


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_fewer_levels_need_smaller_steps(seed: int, loss: str) -> None:
    X = np.random.default_rng(seed).normal([0, 5, -3, 100, 0], [1, 2, 0.1, 50, 1e-3], (200, 5))
    rates = [suggest_learning_rate(X, 16, Precision(bits), loss=loss) for bits in (2, 4, 8)]
    plain = suggest_learning_rate(X, 16, loss=loss)
    assert rates[0] < rates[1] <= rates[2] == plain
    assert suggest_learning_rate(X, 16, Precision(2, "nearest"), loss=loss) == plain


def test_constant_data_gets_the_largest_rate() -> None:
    assert suggest_learning_rate(np.ones((4, 2)), 16) == LARGEST
    assert suggest_learning_rate(np.ones((4, 2)), 16, loss="log_loss") == 4 * LARGEST
