"""Weights of rows: copies against repeated rows, against weighted optima, and their statistics."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.estimators.row_copies import absolute_copies, relative_copies

KINDS = (SGDRegressor, SGDClassifier)


def table(seed, rows=300, n=6):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, n)) * 10.0 ** random.integers(-2, 3, n)
    score = X @ (random.normal(size=n) / np.abs(X).max(axis=0)) + random.normal(0, 0.5, rows)
    return random, X, score


def labels(kind, score):
    return score if kind is SGDRegressor else np.digitize(score, np.quantile(score, [0.3, 0.7]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1.0, 0.125, 3.7e5])
def test_counts_are_repeated_rows_bit_for_bit(kind, factor, seed):
    random, X, score = table(seed)
    counts, y = random.integers(0, 4, len(X)), labels(kind, score)
    model = kind(bits=4, random_state=seed, epochs=4, learning_rate=0.1, device="cpu")
    weighted = model.fit(X, y, sample_weight=counts * factor).coef_
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).coef_
    assert weighted.tolist() == repeated.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_equal_weights_change_no_bit(kind, seed):
    _, X, score = table(seed)
    model, y = kind(random_state=seed, epochs=4, device="cpu"), labels(kind, score)
    plain = model.fit(X, y).coef_.tolist()
    assert model.fit(X, y, sample_weight=np.full(len(X), 0.3)).coef_.tolist() == plain
    assert model.fit(X, y, np.ones(len(X), int)).coef_.tolist() == plain


@pytest.mark.parametrize("device", ["emulator", "cpu"])
def test_every_device_takes_the_same_copies(device, seed):
    random, X, score = table(seed)
    weights = random.exponential(size=len(X))
    model = SGDRegressor(random_state=seed, epochs=3, device=device).fit(X, score, weights)
    other = SGDRegressor(random_state=seed, epochs=3, device="emulator").fit(X, score, weights)
    assert model.coef_.tolist() == other.coef_.tolist()


def test_real_weights_reach_the_weighted_optimum(seed):
    """The rounding of copies costs at most a tenth of what the choice of the rows costs, times two for this sample."""
    random, X, score = table(seed, rows=2000)
    weights = random.exponential(size=len(X)) ** 2
    model = SGDRegressor(bits=32, sampling="full", random_state=seed, epochs=40, device="cpu")
    model.fit(X, score, sample_weight=weights)
    A = np.column_stack([X, np.ones(len(X))])
    best = np.linalg.lstsq(A * np.sqrt(weights)[:, None], score * np.sqrt(weights), rcond=None)[0]

    def loss(coefficients):
        return np.average((A @ coefficients - score) ** 2, weights=weights)

    excess = loss(np.append(model.coef_, model.intercept_)) - loss(best)
    own = (weights**2).sum() / weights.sum() ** 2 * len(best) * loss(best)  # of the optimum of other rows like these
    assert 0 <= excess <= 0.2 * own
    plain = np.linalg.lstsq(A, score, rcond=None)[0]
    assert excess < loss(plain) - loss(best)


def test_copies_are_unbiased_and_add_up(seed):
    random = np.random.default_rng(seed)
    weights = random.exponential(size=500) * random.integers(0, 2, 500)
    some = [relative_copies(weights, np.random.default_rng([seed, i])) for i in range(200)]
    wanted = weights / weights.mean() * 32  # 2**14 // 500
    assert all(abs(copies.sum() - 32 * 500) <= 1 for copies in some)
    assert all((np.abs(copies - wanted) < 1 + 1e-6).all() for copies in some)
    assert np.abs(np.mean(some, axis=0) - wanted).max() < 6 * 0.5 / np.sqrt(200)
    assert not np.asarray(some)[:, weights == 0].any()


def test_rows_in_a_periodic_order_keep_their_shares(seed):
    """Copies of every second row alone would be another table."""
    weights = np.tile([1.0, 1.0 + 1e-3], 50_000) * 0.1237
    weights[0] = 1234.5
    copies = relative_copies(weights, np.random.default_rng(seed))
    ratio = copies[2::2].sum() / copies[1::2].sum()
    assert ratio == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("weight", [3.0, 0.4, 1.7])
def test_partial_fit_steps_by_the_weight_of_a_row(weight, seed):
    _, X, score = table(seed, rows=64)
    make = {"bits": 32, "sampling": "full", "learning_rate": 0.01, "batch_size": 64, "random_state": seed}
    first = SGDRegressor(**make, device="cpu").partial_fit(X, score)
    before = first.coef_.copy()
    moved = first.partial_fit(X, score).coef_ - before
    other = SGDRegressor(**make, device="cpu").partial_fit(X, score)
    weighted = other.partial_fit(X, score, sample_weight=np.full(64, weight)).coef_ - before
    reach = np.abs(X).max(axis=0)  # weights are rounded in these units
    moved, weighted = moved * reach, weighted * reach
    assert weighted == pytest.approx(weight * moved, rel=0.05, abs=0.03 * weight * np.abs(moved).max())


def test_partial_fit_of_weights_that_round_to_no_row_keeps_the_model(seed):
    _, X, score = table(seed)
    model = SGDRegressor(random_state=seed, device="cpu").partial_fit(X, score)
    before = model.coef_.tolist()
    model.partial_fit(X, score, sample_weight=np.r_[1e-12, np.zeros(len(X) - 1)])
    assert model.coef_.tolist() == before and model.t_ == 2 * len(X) + 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 299, "has shape"),
        ([[1.0]] * 300, "has shape"),
        ([-1.0] + [1.0] * 299, "below zero"),
        ([0.0] * 300, "above zero"),
        ([np.nan] * 300, "NaN"),
        (["a"] * 300, "sample_weight"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_unusable_weights_are_refused(weights, message, method, seed):
    _, X, score = table(seed)
    with pytest.raises(DataError, match=message):
        getattr(SGDRegressor(device="cpu"), method)(X, score, sample_weight=weights)


def test_partial_fit_refuses_weights_far_above_1(seed):
    _, X, score = table(seed)
    with pytest.raises(DataError, match="divide the weights"):
        SGDRegressor(device="cpu").partial_fit(X, score, sample_weight=np.full(len(X), 1000.0))


def test_a_class_of_weight_0_stays_a_class(seed):
    _, X, score = table(seed)
    y = labels(SGDClassifier, score)
    model = SGDClassifier(random_state=seed, device="cpu").fit(X, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 1, 2] and np.mean(model.predict(X) == 1) < 0.05


def test_absolute_copies_of_integers_are_themselves(seed):
    weights = np.random.default_rng(seed).integers(0, 5, 40).astype(float)
    copies, multiple = absolute_copies(weights, np.random.default_rng(seed))
    assert copies.tolist() == weights.tolist() and multiple == 1
