"""The lightest path, and the lightest path with a given number of intervals, against exhaustive dynamic programs."""

import numpy as np
import pytest
from tests.helpers.levels_data import DATA
from tests.helpers.levels_oracle import best_costs

from bitlane.levels import search as searching
from bitlane.levels.bins import Bins
from bitlane.levels.path import lightest_path
from bitlane.levels.search import search


def curve_of(values):
    distinct, counts = np.unique(values, return_counts=True)
    return Bins(distinct.astype(np.float64), counts.astype(np.float64)).curve()


def lightest_weight(curve, penalty):
    """Return the weight of the lightest path from the first to the last candidate, trying all steps."""
    weight = [0.0]
    for j in range(1, len(curve.x)):
        weight.append(penalty + min(weight[i] + curve.cost([i, j]) for i in range(j)))
    return weight[-1]


@pytest.mark.parametrize("name", DATA)
def test_lightest_path_is_the_lightest(seed, loops, name):
    rng = np.random.default_rng(seed)
    curve = curve_of(DATA[name](rng, 100))
    for penalty in np.geomspace(1e-9, 1.0, 8) * curve.cost([0, len(curve.x) - 1]):
        path, weight = lightest_path(curve, penalty)
        assert path[0] == 0 and path[-1] == len(curve.x) - 1 and (np.diff(path) > 0).all()
        assert weight == pytest.approx(curve.cost(path) + penalty * (len(path) - 1), rel=1e-9)
        assert weight == pytest.approx(lightest_weight(curve, penalty), rel=1e-9)


def test_paths_between_two_penalties_are_spliced(seed, loops, monkeypatch):
    """With equal steps few numbers of intervals are optimal at any penalty; the others splice two paths."""
    spliced = []
    splice = searching._between
    monkeypatch.setattr(searching, "_between", lambda *paths: spliced.append(paths[2]) or splice(*paths))
    values = np.arange(49.0)
    best = best_costs(values, 48)
    curve = curve_of(values)
    for intervals in range(1, 49):
        found = search(curve, intervals)
        assert len(found.path) == intervals + 1
        assert curve.cost(found.path) == pytest.approx(best[intervals - 1], abs=1e-9)
        assert found.bound == pytest.approx(best[intervals - 1], abs=1e-9)
    assert len(spliced) > 20


def test_the_result_does_not_depend_on_the_first_penalty(seed, loops):
    curve = curve_of(np.random.default_rng(seed).laplace(size=500))
    found = search(curve, 20)
    for penalty in (1e-12, found.penalty / 3, found.penalty, 3 * found.penalty, 1e12):
        assert curve.cost(search(curve, 20, penalty).path) == pytest.approx(curve.cost(found.path), rel=1e-10)
