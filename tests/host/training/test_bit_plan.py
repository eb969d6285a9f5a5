"""Plans of bits against all plans there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from bitlane import SGDClassifier, SGDRegressor
from bitlane.errors import DataError
from bitlane.training.bit_plan import BitPlan, plan_bits
from bitlane.training.forecast import Forecast
from bitlane.training.learning_rate import draw_variance
from bitlane.training.moments import TableMoments

CHOICES = (2, 4, 8)


def forecast(seed, epochs=7):
    """The forecast of a table with columns of unequal size, at rates that fall with the bits."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (400, 4)) * [1.0, 0.5, 0.3, 0.2]
    y = (X @ rng.uniform(0.2, 0.8, 4) + rng.normal(0, 0.1, 400))[:, None]
    return Forecast(
        moments=TableMoments(X, y, {bits: draw_variance(X, bits) for bits in CHOICES}, 400),
        rates={2: 0.1, 4: 0.8, 8: 1.0, 32: 1.0},
        cycles={2: 100, 4: 140, 8: 230},
        start_cycles=int(rng.integers(100, 300)),
        decay=0.8,
        batch_size=8,
        epochs=epochs,
        draw_sets=8,
    )


def cost(known, bits):
    """The cycles of epochs with these bits."""
    changes = sum(one != other for one, other in pairwise(bits))
    return sum(known.cycles[each] for each in bits) + changes * known.start_cycles


def loss(known, bits):
    spread = known.moments.start()
    for epoch, each in enumerate(bits):
        spread = known.after(spread, each, epoch)
    return known.moments.loss(spread)


def test_no_plan_with_rising_bits_reaches_the_goal_in_fewer_cycles(seed):
    known = forecast(seed)
    goal = 1.01 * known.losses(32)[-1]
    ways = [way for epochs in range(1, 8) for way in combinations_with_replacement(CHOICES, epochs)]
    least = min(cost(known, way) for way in ways if loss(known, way) <= goal)
    plan = plan_bits(BitPlan(CHOICES), known)
    assert len(plan) == 7
    reached = next(epoch for epoch in range(1, 8) if loss(known, plan[:epoch]) <= goal)
    assert cost(known, plan[:reached]) == least


def test_after_the_goal_the_fewest_bits_that_hold_it(seed):
    known = forecast(seed, epochs=12)
    full = known.losses(32)[-1]
    plan = plan_bits(BitPlan(CHOICES), known)
    reached = next(epoch for epoch in range(1, 13) if loss(known, plan[:epoch]) <= 1.01 * full)
    for epoch in range(reached, 12):
        ends = {bits: loss(known, (*plan[:epoch], bits)) for bits in CHOICES}
        enough = max(1.005 * full, 1.001 * min(ends.values()))
        assert plan[epoch] == next(bits for bits in CHOICES if ends[bits] <= enough)


def test_where_no_bits_reach_the_goal_all_epochs_have_the_most(seed):
    known = replace(forecast(seed), rates={2: 1e-6, 4: 1e-6, 8: 1e-6, 32: 1.0})
    assert plan_bits(BitPlan(CHOICES), known) == (8,) * 7


def test_many_epochs_are_planned_in_blocks():
    """A thousand epochs without decay: a search by single epochs would take hours."""
    known = replace(forecast(0, epochs=1000), decay=0.999, rates={2: 1e-4, 4: 1e-3, 8: 2e-3, 32: 2e-3})
    plan = plan_bits(BitPlan(CHOICES), known)
    assert len(plan) == 1000


def table(seed, rows=600, n=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


def test_adaptive_bits_end_at_the_loss_of_32_bits(seed):
    X, y = table(seed)
    planned = SGDRegressor("adaptive", device="cpu", random_state=seed % 1000).fit(X, y)
    full = SGDRegressor(32, sampling="full", device="cpu", random_state=seed % 1000).fit(X, y)
    assert set(planned.run_.bits) <= {2, 4, 6, 8}
    assert "BitPlan(" in planned.run_.settings["bit_policy"]
    assert np.mean((planned.predict(X) - y) ** 2) < 1.05 * np.mean((full.predict(X) - y) ** 2)


def test_the_plan_does_not_depend_on_the_seed():
    X, y = table(1)
    plans = [SGDRegressor("adaptive", device="cpu", random_state=each).fit(X, y).run_.bits for each in (0, 1)]
    np.testing.assert_array_equal(*plans)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (SGDClassifier("adaptive", loss="hinge"), "needs loss='squared_error', not 'hinge'"),
        (SGDClassifier("adaptive", loss="squared_error", class_weight="balanced"), "class_weight"),
        (SGDRegressor(BitPlan((2, 3))), "even numbers"),
    ],
)
def test_what_cannot_be_planned_is_refused(model, says):
    X, y = table(0)
    with pytest.raises(DataError, match=says):
        model.fit(X, np.where(y > y.mean() + 1, 1, 0))


def test_too_many_features_are_refused(monkeypatch):
    monkeypatch.setattr("bitlane.training.forecast.MOST_FEATURES", 5)
    X, y = table(0)
    with pytest.raises(DataError, match="supports 5 features, not 6"):
        SGDRegressor("adaptive").fit(X, y)


@pytest.mark.parametrize("tolerances", [(1.01, 1.02), (1.0, 1.0)])
def test_tolerances_that_make_no_plan_are_refused(tolerances):
    with pytest.raises(DataError, match="reach and hold"):
        BitPlan((2, 4), *tolerances)
