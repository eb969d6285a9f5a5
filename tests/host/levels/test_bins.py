"""Bins: curve, cost and means against sums over the values."""

import numpy as np
import pytest
from tests.helpers.levels_data import bins_of
from tests.helpers.levels_oracle import cost_of

from bitlane.levels.curve import outwards


def test_costs_equal_those_of_the_values(seed):
    rng = np.random.default_rng(seed)
    values = rng.lognormal(size=400)
    bins = bins_of(values, np.arange(7, 400, 7))
    curve = bins.curve()
    for _ in range(20):
        inner = np.sort(rng.choice(np.arange(1, len(bins.first) - 1), rng.integers(0, 20), replace=False))
        path = np.concatenate([[0], inner, [len(bins.first) - 1]])
        expected = cost_of(bins.first[path], values)
        assert bins.cost(path) == pytest.approx(expected, rel=1e-12)
        assert curve.cost(path) == pytest.approx(expected, rel=1e-9)
    assert curve.least() == pytest.approx(cost_of(bins.first, values), rel=1e-9)
    assert curve.at(path).least() == pytest.approx(expected, rel=1e-9)


def test_means_minus_variances_cost_no_more_for_any_levels(seed):
    """The bound of the approximate method holds for all levels, including levels inside bins."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.laplace(size=300))
    bins = bins_of(values, np.arange(11, 300, 11))
    means = bins.means()
    assert (np.diff(means.first) >= 0).all() and means.weight.sum() == 300
    points = np.repeat(means.first, means.weight.astype(int))
    for _ in range(50):
        inner = rng.choice(values[1:-1], rng.integers(0, 30), replace=False)
        levels = np.sort(np.concatenate([values[[0, -1]], inner]))
        assert cost_of(levels, points) - bins.variance() <= cost_of(levels, values) + 1e-9
    ends = values[[0, -1]]
    assert cost_of(ends, points) - bins.variance() == pytest.approx(cost_of(ends, values))  # no level inside a bin


def test_sums_accumulate_outwards():
    sums = outwards(np.array([1e20, 1.0, 2.0, 3.0, 1e20]), 2)
    assert sums[1:5].tolist() == [-1, 0, 2, 5]
    assert outwards(np.zeros(0), 0).tolist() == [0]
