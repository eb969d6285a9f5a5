"""Fits that are worse than one answer for all rows say so; others do not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor

ONE_ANSWER = "a model with one answer for all rows has"


def skewed(seed: int, rows: int = 3000, n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal columns, and a class that a linear score decides with noise."""
    random = np.random.default_rng(seed)
    X = np.exp(random.normal(size=(rows, n)))
    score = X @ random.normal(size=n)
    return X, (score + random.normal(0, score.std() / 2, rows) > np.quantile(score, 0.85)).astype(int)


def told(model: SGDClassifier | SGDRegressor, X: np.ndarray, y: np.ndarray) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return any(ONE_ANSWER in str(each.message) for each in caught)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("seeds", range(4))
def test_hinge_loss_above_that_of_one_answer_is_told(bits: int, seeds: int, seed: int) -> None:
    """Of each fit that ends more than 2 % above, and of none that ends below; 2 bits do."""
    X, y = skewed(seed + seeds)
    model = SGDClassifier(loss="hinge", bits=bits, random_state=seed, device="cpu")
    warned = told(model, X, y)
    loss = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * model.decision_function(X)).mean()
    constant = 2 * min(y.mean(), 1 - y.mean())
    if loss > 1.02 * constant:
        assert warned
    if loss < constant:
        assert not warned
    if bits == 2:
        assert loss > constant


def test_no_warning_of_few_epochs_class_weights_and_good_fits(seed: int) -> None:
    X, y = skewed(seed)
    for parameters in ({"epochs": 2}, {"class_weight": "balanced"}):
        assert not told(SGDClassifier(loss="hinge", bits=2, random_state=seed, device="cpu", **parameters), X, y)
    normal = np.random.default_rng(seed).normal(size=(500, 5))
    assert not told(SGDClassifier(loss="hinge", bits=4, random_state=seed, device="cpu"), normal, normal[:, 0] > 0)
    lasso = SGDRegressor(penalty="l1", alpha=0.01, bits=4, random_state=seed, device="cpu")
    assert not told(lasso, normal, normal[:, 0])


def test_a_rate_that_diverges_is_told_with_bounds(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(500, 5))
    model = SGDRegressor(bounds=(-4, 4), bits=8, learning_rate=40.0, decay=1.0, random_state=seed, device="cpu")
    assert told(model, X, X[:, 0])
