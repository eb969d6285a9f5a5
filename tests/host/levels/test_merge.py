"""Merging intervals: few levels that cost at most twice the minimum."""

import numpy as np
import pytest
from tests.helpers.levels_data import DATA
from tests.helpers.levels_oracle import best_costs

from bitlane.levels.bins import Bins
from bitlane.levels.merge import merge
from bitlane.levels.search import search


@pytest.mark.parametrize("name", DATA)
def test_four_times_the_intervals_cost_at_most_twice_the_minimum(seed, name):
    x, counts = np.unique(DATA[name](np.random.default_rng(seed), 700), return_counts=True)
    bins = Bins(x, counts.astype(np.float64))
    curve = bins.curve()
    best = best_costs(x, 40, bins.weight)
    for intervals in (1, 2, 3, 5, 10, 40):
        levels = merge(curve, intervals)
        assert len(levels) <= 4 * intervals + 1
        assert levels[0] == 0 and levels[-1] == len(x) - 1 and (np.diff(levels) > 0).all()
        assert bins.cost(levels) <= 2 * best[intervals - 1]


def test_a_gap_between_clusters_is_not_merged():
    """Two distant clusters: merging pairs by position alone would span the gap."""
    x = np.concatenate([np.arange(1000) * 1e-6, 1 + np.arange(1001) * 1e-6])
    levels = merge(Bins(x, np.ones(len(x))).curve(), 3)
    assert {999, 1000} <= set(levels.tolist())


@pytest.mark.parametrize("name", DATA)
def test_best_levels_among_merged_candidates(seed, name):
    """ZipML takes the best levels among those of a merge to 4k intervals; here they give the first penalty."""
    x, counts = np.unique(DATA[name](np.random.default_rng(seed), 700), return_counts=True)
    curve = Bins(x, counts.astype(np.float64)).curve()
    candidates = merge(curve, 10)
    best = best_costs(x, 10, counts.astype(np.float64))[-1]
    found = search(curve.at(candidates), 10)
    assert best * (1 - 1e-9) <= curve.cost(candidates[found.path]) <= 2 * best
