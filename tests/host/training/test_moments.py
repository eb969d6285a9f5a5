"""The forecast of SGD against textbook SGD in float64, averaged over many runs."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.training.learning_rate import draw_variance
from bitlane.training.moments import EpochSteps, TableMoments

REL = 0.4
ROWS, FEATURES, BATCH, RUNS = 800, 5, 8, 40
BASE = {2: 2, 4: 4}  # bits of a sample: bits of its base


def table(seed):
    """A table with columns of unequal size, and labels with noise; centred, within [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (ROWS, FEATURES)) * [1.0, 0.9, 0.8, 0.7, 0.6]
    X -= X.mean(axis=0)
    y = X @ rng.uniform(0.2, 0.8, FEATURES) + rng.normal(0, 0.05, ROWS)
    return np.clip(X, -1, 1), y - y.mean()


def draw(rng, X, base_bits):
    """Independent draws of each value to the two levels around it."""
    width = 2.0 ** (1 - base_bits)
    low = np.floor((X + 1) / width)
    return (low + (rng.random(X.shape) < (X + 1) / width - low)) * width - 1


def textbook(X, y, bits, rate, decay, epochs, draw_sets, seed):
    """Mean loss after each epoch of double-sampled SGD over `RUNS` runs with fixed order of rows."""
    losses = np.zeros(epochs)
    for run in range(RUNS):
        rng = np.random.default_rng([seed, run])
        sets = [
            (draw(rng, X, BASE[bits]), draw(rng, X, BASE[bits])) if bits in BASE else (X, X) for _ in range(draw_sets)
        ]
        order = rng.permutation(ROWS)
        w = np.zeros(FEATURES)
        for epoch in range(epochs):
            first, second = sets[epoch % draw_sets]
            for some in order.reshape(-1, BATCH):
                one, two = first[some], second[some]
                gradient = one.T @ (two @ w - y[some]) + two.T @ (one @ w - y[some])
                w -= rate * decay**epoch * gradient / 2 / BATCH
            losses[epoch] += np.mean((X @ w - y) ** 2) / RUNS
    return losses


def forecast(X, y, bits, rate, decay, epochs, draw_sets):
    moments = TableMoments(X, y[:, None], {b: draw_variance(X, base) for b, base in BASE.items()}, len(X))
    spread, losses = moments.start(), []
    for epoch in range(epochs):
        again = (decay**-draw_sets, sum(decay**-k for k in range(1, draw_sets + 1))) if epoch >= draw_sets else (0, 0)
        spread = moments.after_epoch(spread, EpochSteps(bits, rate * decay**epoch, BATCH, epoch == 0, *again))
        losses.append(moments.loss(spread))
    return np.array(losses), moments.least_loss


@pytest.mark.parametrize(("bits", "rate", "draw_sets"), [(2, 0.15, 8), (4, 0.6, 8), (4, 0.6, 2), (32, 0.6, 8)])
def test_the_forecast_is_near_textbook_sgd(seed, bits, rate, draw_sets):
    """The excess over the least loss, 0.3 to 12 %, is forecast to 40 % from the third epoch on."""
    X, y = table(seed)
    expected = textbook(X, y, bits, rate, 0.8, 8, draw_sets, seed)
    found, least = forecast(X, y, bits, rate, 0.8, 8, draw_sets)
    assert least == pytest.approx(np.mean((X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) ** 2))
    excess, forecasted = expected / least - 1, found / least - 1
    for epoch in range(2, 8):
        assert forecasted[epoch] == pytest.approx(excess[epoch], rel=REL, abs=0.0005)


def test_several_targets_add_up(seed):
    X, y = table(seed)
    variances = {2: draw_variance(X, 2)}
    both = TableMoments(X, np.stack([y, y], axis=1), variances, len(X))
    one = TableMoments(X, y[:, None], variances, len(X))
    steps = EpochSteps(2, 0.1, BATCH)
    assert both.loss(both.after_epoch(both.start(), steps)) == pytest.approx(
        2 * one.loss(one.after_epoch(one.start(), steps))
    )
