"""The five levels of weights, and rounding to them."""

import numpy as np
import pytest
from tests.helpers.levels_oracle import best_costs, cost_of

from bitlane_studies.papers.zipml.model_levels import LEVELS, on_levels, weight_levels


def weights(seed, shape):
    return np.random.default_rng(seed).standard_t(3, shape).astype(np.float32)


def test_uniform_levels_are_equally_spaced_from_end_to_end(seed):
    found = weight_levels(weights(seed, (4, 3, 5)), "uniform")
    values = weights(seed, (4, 3, 5)).astype(np.float64)
    assert len(found) == LEVELS
    assert found[[0, -1]] == pytest.approx([values.min(), values.max()], rel=1e-12)
    assert np.diff(found) == pytest.approx((values.max() - values.min()) / 4, rel=1e-12)


def test_optimal_levels_have_the_least_variance(seed):
    values = weights(seed, (6, 5, 5))
    found = weight_levels(values, "optimal")
    assert len(found) == LEVELS
    flat = values.ravel().astype(np.float64)
    assert cost_of(found, flat) == pytest.approx(best_costs(flat, LEVELS - 1)[-1], rel=1e-6)
    assert cost_of(found, flat) < cost_of(weight_levels(values, "uniform"), flat)


@pytest.mark.parametrize("choice", ["uniform", "optimal"])
def test_weights_go_to_the_nearest_level(seed, choice):
    values = weights(seed, (3, 4, 5, 5))
    rounded, levels = on_levels(values, choice), weight_levels(values, choice)
    assert rounded.shape == values.shape and rounded.dtype == np.float32
    distances = np.abs(values[..., None] - levels).min(axis=-1)
    assert np.abs(rounded - values) == pytest.approx(distances, abs=1e-6)
    assert np.isin(rounded, levels.astype(np.float32)).all()


def test_full_precision_and_equal_weights(seed):
    values = weights(seed, (7, 2))
    assert np.array_equal(on_levels(values, "full"), values)
    for choice in ("uniform", "optimal"):
        assert np.array_equal(on_levels(np.full((2, 2), 0.25), choice), np.full((2, 2), 0.25))
