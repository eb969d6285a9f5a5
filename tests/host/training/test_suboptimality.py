"""What a trained model lacks to its optimum, held against solvers of scikit-learn on the whole table."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from tests.helpers.emulators import FASTEST

from bitlane import SGDClassifier, SGDRegressor
from bitlane.training.options import derived_decay


def table(rng: np.random.Generator, positive: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian columns in random units with numbers, or a share of positives."""
    n = int(rng.integers(3, 12))
    units = rng.normal(size=(4_000, n))
    scores = units @ rng.normal(size=n) + rng.normal(0, 0.5, 4_000)
    y = scores if positive is None else (scores > np.quantile(scores, 1 - positive)).astype(int)
    return units * 10.0 ** rng.uniform(-3, 3, n), y


@pytest.mark.parametrize("epochs", [1, 2, 20])
@pytest.mark.parametrize("rate", [0.001, 0.05])
def test_the_share_of_squares_is_the_r_squared_that_is_missing(seed: int, epochs: int, rate: float) -> None:
    X, y = table(np.random.default_rng(seed))
    options: dict[str, Any] = {"bits": 32, "sampling": "full", "device": "cpu", "random_state": 0}
    model = SGDRegressor(learning_rate=rate, epochs=epochs, **options).fit(X, y)
    missing = Ridge(1e-9).fit(X / X.std(axis=0), y).score(X / X.std(axis=0), y) - model.score(X, y)
    assert model.run_.suboptimality is not None
    assert model.run_.suboptimality[0] == pytest.approx(missing, rel=0.1, abs=0.01)


@pytest.mark.parametrize("rate", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("positive", [0.5, 0.15])
def test_the_share_of_log_loss_is_what_lbfgs_gains(seed: int, rate: float, positive: float) -> None:
    X, y = table(np.random.default_rng(seed), positive)
    options: dict[str, Any] = {"bits": 32, "sampling": "full", "device": "cpu", "random_state": 0}
    model = SGDClassifier(learning_rate=rate, epochs=5, **options).fit(X, y)
    units = X / X.std(axis=0)
    best = log_loss(y, LogisticRegression(C=1e6, max_iter=5_000).fit(units, y).predict_proba(units))
    constant = log_loss(y, np.full(len(y), y.mean()))
    missing = (log_loss(y, model.predict_proba(X)) - best) / constant
    assert model.run_.suboptimality is not None
    assert model.run_.suboptimality[0] == pytest.approx(missing, rel=0.25, abs=0.05)


def test_a_default_training_that_is_far_from_its_optimum_warns(seed: int) -> None:
    """2 bits on a fifth of positives: the remedy is named, and 8 bits do not warn."""
    X, y = table(np.random.default_rng(seed), 0.2)
    with pytest.warns(UserWarning, match=r"not at its optimum.*[0-9]+% of that of a constant model; use more bits"):
        SGDClassifier(bits=2, device="cpu", random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SGDClassifier(bits=8, epochs=100, device="cpu", random_state=0).fit(X, y)


def test_class_weights_and_the_penalty_belong_to_the_objective(seed: int) -> None:
    X, y = table(np.random.default_rng(seed), 0.1)
    options: dict[str, Any] = {"bits": 8, "epochs": 100, "device": "cpu", "random_state": 0}
    for others in ({"class_weight": "balanced"}, {"penalty": "l2", "alpha": 0.01}):
        found = SGDClassifier(**options, **others).fit(X, y).run_.suboptimality
        assert found is not None and found[0] < 0.02


@pytest.mark.parametrize("others", [{"loss": "hinge"}, {"penalty": "l1", "alpha": 1e-4}, {"bounds": (-1, 1)}])
def test_objectives_without_a_gradient_everywhere_are_not_measured(seed: int, others: dict[str, Any]) -> None:
    X, y = table(np.random.default_rng(seed), 0.5)
    assert SGDClassifier(device="cpu", epochs=2, **others).fit(X, y).run_.suboptimality is None


@pytest.mark.parametrize(("epochs", "decay"), [(1, 0.8), (20, 0.8), (40, 0.8**0.5), (200, 0.8**0.1)])
def test_more_epochs_share_out_the_fall_of_twenty(epochs: int, decay: float) -> None:
    assert derived_decay(epochs) == pytest.approx(decay)
    X = np.arange(12.0).reshape(6, 2)
    model = SGDRegressor(device=FASTEST, epochs=epochs, batch_size=2).fit(X, X[:, 0])
    assert model.run_.settings["decay"] == pytest.approx(decay)


def test_a_resumed_training_keeps_its_decay(seed: int) -> None:
    X, y = table(np.random.default_rng(seed))
    first = SGDRegressor(device="cpu", epochs=40, random_state=0).fit(X, y)
    more = SGDRegressor(device="cpu", epochs=60, random_state=0).fit(X, y, resume=first.run_.checkpoint())
    assert more.run_.settings["decay"] == first.run_.settings["decay"]


def test_rows_that_are_all_on_the_right_side_are_optimal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.2, 1, (300, 2)) * np.where(rng.random(300) < 0.5, 1, -1)[:, None]
    model = SGDClassifier(bits=8, epochs=3, device="cpu", random_state=0).fit(X, X[:, 0] > 0)
    assert model.run_.suboptimality is not None and model.run_.suboptimality.tolist() == [0.0]


def test_rows_of_weight_0_may_be_on_the_wrong_side(seed: int) -> None:
    """With one class of weight 0, the other one is the answer for all rows, and nothing is left to gain."""
    X, y = table(np.random.default_rng(seed), 0.3)
    only = int(np.random.default_rng(seed).integers(2))
    model = SGDClassifier(class_weight={0: 1 - only, 1: only}, device="cpu", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.run_.suboptimality is not None and model.run_.suboptimality.tolist() == [0.0]
    assert (model.predict(X) == only).all()


def test_few_steps_on_a_small_table_warn() -> None:
    """Iris has 150 rows: twenty epochs are 200 steps, and one class is not yet found."""
    from sklearn.datasets import load_iris

    with pytest.warns(UserWarning, match="the model is not at its optimum.*use more epochs .epochs=100."):
        SGDClassifier(bits=8, epochs=20, device="cpu", random_state=0).fit(*load_iris(return_X_y=True))


def test_default_classifier_separates_iris() -> None:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    assert SGDClassifier(bits=8, device="cpu", random_state=0).fit(X, y).score(X, y) > 0.95
