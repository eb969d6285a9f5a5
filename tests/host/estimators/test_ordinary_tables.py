"""Ordinary tables with the usual parameters: Gaussian columns, rare classes, many weak columns, collinear columns."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor

linear_model = pytest.importorskip("sklearn.linear_model")

MARGINS = ("log_loss", "hinge", "squared_hinge", "modified_huber")
RESIDUALS = ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")


def f1(found: np.ndarray, y: np.ndarray) -> float:
    return float(2 * np.sum(found * y) / (found.sum() + y.sum()))


@pytest.mark.parametrize("loss", MARGINS)
def test_classes_of_gaussian_columns_are_found(seed: int, loss: str) -> None:
    """With 2 % to half of positives, in any units, and without a warning: about as logistic regression finds them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10))
    units = rng.normal(size=(4_000, n))
    score = units @ rng.normal(size=n)
    score += rng.uniform(0.05, 0.3) * score.std() * rng.normal(size=4_000)
    X, y = units * 10.0 ** rng.uniform(-3, 3, n), (score > np.quantile(score, rng.uniform(0.5, 0.98))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SGDClassifier(8, loss=loss, device="cpu", random_state=seed).fit(X, y)
    best = linear_model.LogisticRegression(C=1e4, max_iter=1_000).fit(units, y)
    assert model.score(X, y) > best.score(units, y) - 0.01
    assert f1(model.predict(X), y) > f1(best.predict(units), y) - 0.2


def test_the_default_classifier_separates_classes_in_a_row(seed: int) -> None:
    """Classes side by side along one column, as those of iris: one line to the rest cannot cut out the middle one."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(600) % 3)
    X = rng.normal(size=(600, 4)) * 0.3
    X[:, 0] += y
    X[:, 1] += np.where(y == 1, 1.5, 0)
    assert SGDClassifier(device="cpu", random_state=seed).fit(X, y).score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_two_bits_learn_a_weak_signal_of_many_columns(seed: int) -> None:
    """The automatic rate heeds the variance of the draws: as good as a small rate, and half as good as four bits."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 160))
    rows = n * int(rng.integers(4, 11))
    X = rng.normal(size=(rows + 2_000, n)) if rng.random() < 0.5 else rng.uniform(-1, 1, (rows + 2_000, n))
    signal = X @ rng.normal(size=n)
    y = signal + rng.uniform(1, 1.7) * signal.std() * rng.normal(size=len(X))
    X *= 10.0 ** rng.uniform(-3, 3, n)
    two, small, four = (
        SGDRegressor(**options, device="cpu", random_state=seed).fit(X[:rows], y[:rows]).score(X[rows:], y[rows:])
        for options in ({"bits": 2}, {"bits": 2, "learning_rate": 0.01}, {"bits": 4})
    )
    assert two > 0.5 * four > 0 and two > small - 0.05


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("loss", [*RESIDUALS, *MARGINS])
def test_more_epochs_do_not_harm_collinear_columns(seed: int, loss: str) -> None:
    """Of any loss, bits and draws; two or three bits of losses of margins lost up to 0.06 in 150 tables."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(800, 1))
    X = z + rng.uniform(0.03, 0.2) * rng.normal(size=(800, int(rng.integers(4, 20))))
    y: Any = z[:, 0] + 0.1 * rng.normal(size=800)
    kind: Any = SGDClassifier if loss in MARGINS else SGDRegressor
    y = y > np.quantile(y, rng.uniform(0.3, 0.7)) if loss in MARGINS else y
    options: dict[str, Any] = {
        "bits": int(rng.choice([2, 3, 4, 6])),
        "draws": [8, "once", 3, 16][rng.integers(4)],
        "penalty": [None, "l2", "elasticnet"][rng.integers(3)],
    }
    model = kind(loss=loss, alpha=1e-5, device="cpu", random_state=seed, **options)
    few, many = (
        model.set_params(epochs=epochs, decay=decay).fit(X, y).score(X, y)
        for epochs, decay in ((20, 0.8), (100, 0.955))
    )
    assert many > few - (0.15 if loss in MARGINS and options["bits"] < 4 else 0.05), options
