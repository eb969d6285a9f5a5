"""Suggested learning rates: stable, and smaller where draws are noisier."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.contract.precision import Precision
from bitlane.evaluation.baseline import float_models
from bitlane.evaluation.metrics import constant_loss, losses_of
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.learning_rate import (
    LARGEST,
    SHARE,
    suggest_learning_rate,
    with_learning_rate,
    with_steady_rate,
)
from bitlane.training.options import TrainingOptions


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
@pytest.mark.parametrize("features", [1, 8, 100])
def test_suggested_rates_are_stable(seed: int, features: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, features)) @ rng.normal(size=(features, features))
    y = X @ rng.normal(size=features) + rng.normal(size=300)
    y = y if loss == "squared_error" else np.where(y > 0, 1.0, -1.0)
    rate = suggest_learning_rate(X, 16, loss=loss)
    assert 0 < rate <= LARGEST * (4 if loss == "log_loss" else 1)
    models = float_models(X, y, TrainingSchedule(learning_rate=rate, decay=0.8, loss=loss))
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
    rounded = suggest_learning_rate(X, 16, Precision(2, "nearest"), loss=loss)
    assert rounded == plain if loss == "squared_error" else rounded > plain  # a stored intercept is 3/4 there, not 1


def test_constant_data_gets_the_largest_rate() -> None:
    assert suggest_learning_rate(np.ones((4, 2)), 16) == LARGEST


def test_larger_batches_take_larger_steps(seed: int) -> None:
    """The noise of draws and rows is a mean over the batch."""
    X = np.random.default_rng(seed).normal(size=(300, 40))
    for precision in (None, Precision(2), Precision(4)):
        rates = [suggest_learning_rate(X, batch, precision) for batch in (1, 4, 16, 64)]
        assert rates == sorted(rates) and rates[-1] > 2 * rates[0]


def test_the_feedback_of_gaussian_rows(seed: int) -> None:
    """Of n independent columns of variance q, a is q and the mean of |v|^2 (v u)^2 is (n + 2) q^2."""
    n, batch = 40, 4
    X = np.random.default_rng(seed).normal(size=(4000, n))
    scale = np.abs(X - X.mean(axis=0)).max(axis=0)
    q = (X.std(axis=0) / scale).mean() ** 2
    bound = 2 / (q + (n + 2) * q / batch)
    assert suggest_learning_rate(X, batch) == pytest.approx(SHARE * bound, rel=0.25)


def test_auto_is_the_suggested_number(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, options = rng.normal(size=(120, 6)), {"random_state": 1, "epochs": 3, "device": FASTEST}
    y = X @ rng.normal(size=6)
    auto = SGDRegressor(**options).fit(X, y)
    rate = suggest_learning_rate(X, 16, Precision(4))
    assert auto.run_.settings["learning_rate"] == rate
    assert np.array_equal(auto.coef_, SGDRegressor(learning_rate=rate, **options).fit(X, y).coef_)


def test_a_resumed_training_keeps_its_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 6))
    y = X @ rng.normal(size=6)
    whole = SGDRegressor(random_state=1, epochs=5, device=FASTEST).fit(X, y)
    half = SGDRegressor(random_state=1, epochs=2, device=FASTEST).fit(X, y)
    rest = SGDRegressor(epochs=5, device=FASTEST).fit(X, y, resume=half.run_.checkpoint())
    assert np.array_equal(whole.coef_, rest.coef_)
    with pytest.raises(DataError, match=r"learning_rate=0\.01, but the checkpoint"):
        SGDRegressor(epochs=5, learning_rate=0.01, device=FASTEST).fit(X, y, resume=half.run_.checkpoint())


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_strong_penalties_lower_the_rate(seed: int, penalty: str) -> None:
    X = np.random.default_rng(seed).normal(size=(120, 6))
    y = X[:, 0]
    model = SGDRegressor(penalty=penalty, alpha=100.0, epochs=1, device=FASTEST).fit(X, y)
    limit = 1.0 if penalty == "l1" else 1 / 64
    assert 0.8 * limit < 100.0 * model.run_.settings["learning_rate"] < limit


def test_heavy_class_weights_lower_the_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 6))
    y = np.where(X[:, 0] > 0, 1, 0)
    rates = [
        SGDClassifier(class_weight=weights, epochs=1, device=FASTEST).fit(X, y).run_.settings["learning_rate"]
        for weights in (None, {1: 10.0}, {1: 1000.0})
    ]
    assert rates[0] > 2 * rates[1] > 20 * rates[2]


def test_stale_weights_need_a_quarter_of_the_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, size=(2000, 200))  # not centred: one direction has most of the energy
    y = X @ rng.normal(size=200)
    options = {"batch_size": 64, "fit_intercept": False, "device": FASTEST, "random_state": 0, "decay": 1.0}
    runs = [SGDRegressor(staleness=staleness, **options).fit(X, y).run_ for staleness in (0, 1)]
    rates = [run.settings["learning_rate"] for run in runs]
    assert rates[1] == pytest.approx(rates[0] / 4, rel=0.11)  # of two digits, rounded down
    assert runs[1].loss[-1] < runs[1].loss[0] and runs[1].saturations == 0


def test_another_word_is_an_error() -> None:
    with pytest.raises(DataError, match="learning_rate='optimal': choose a number or 'auto'"):
        SGDRegressor(learning_rate="optimal", batch_size=2, device=FASTEST).fit([[1.0], [2.0]], [1.0, 2.0])


def test_the_steady_rate_is_an_eighth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    options, scaling = TrainingOptions(), fit_scaling(X, y)
    rate = with_learning_rate(options, X, y, scaling).learning_rate
    assert with_steady_rate(options, X, y, scaling).learning_rate == pytest.approx(rate / 8, rel=0.11)
    given = TrainingOptions(learning_rate=0.3)
    assert with_steady_rate(given, X, y, scaling) is given
