"""Optimal levels: the minimum cost of the textbook for any values, and errors for invalid arguments."""

import tracemalloc

import numpy as np
import pytest
from tests.helpers.levels_data import DATA, bins_of, levels_of
from tests.helpers.levels_oracle import best_costs, cost_of

import bitlane
from bitlane import DataError, optimal_levels
from bitlane.levels.optimal import _bound
from bitlane.levels.search import search
from bitlane.support import jit


@pytest.mark.parametrize("name", DATA)
def test_exact_levels_have_the_minimum_cost(seed, name):
    rng = np.random.default_rng(seed)
    values = DATA[name](rng, 4096)
    # The textbook's dynamic program gives the same costs for distinct values with counts, and is faster.
    distinct, counts = np.unique(values, return_counts=True)
    best = best_costs(distinct, 64, counts.astype(float))
    for intervals in (1, 2, 3, 7, 16, 33, 64):
        levels, info = levels_of(values, intervals)
        check(levels, info, values, best[intervals - 1])


@pytest.mark.parametrize("name", DATA)
def test_weighted_levels_have_the_minimum_cost(seed, name):
    rng = np.random.default_rng(seed)
    values = DATA[name](rng, 300)
    weights = rng.exponential(size=300) * rng.integers(0, 2, 300) + 1e-6 * rng.random(300)
    best = best_costs(values, 40, weights)
    for intervals in (1, 2, 5, 20, 40):
        levels, info = levels_of(values, intervals, weights=weights)
        check(levels, info, values, best[intervals - 1], weights)


def test_ties_are_resolved(seed):
    """With equal steps, many numbers of intervals are optimal at one penalty, and few at a penalty of their own."""
    rng = np.random.default_rng(seed)
    for values in (np.arange(60.0), np.repeat(np.arange(24.0), 3), np.sort(rng.integers(0, 9, 50)).cumsum() * 1.0):
        best = best_costs(values, 40)
        for intervals in range(1, 41):
            levels, info = levels_of(values, intervals)
            check(levels, info, values, best[intervals - 1])


def check(levels, info, values, best, weights=None):
    """Assert that the levels are values, their cost is the reported one and the minimum, and the bound holds."""
    assert levels.dtype == np.float64 and (np.diff(levels) >= 0).all()
    assert np.isin(levels, values).all()
    assert (levels[0], levels[-1]) == (values.min(), values.max())
    scale = best_costs(values[[values.argmin(), values.argmax()]], 1)[0] + np.ptp(values) ** 2
    assert cost_of(levels, values, weights) == pytest.approx(info.cost, rel=1e-11, abs=1e-15 * scale)
    assert info.cost == pytest.approx(best, rel=1e-9, abs=1e-15 * scale)
    assert info.bound <= max(0, best) * (1 + 1e-12)
    assert info.bound >= best - 1e-9 * scale * len(values)


@pytest.mark.parametrize("name", [*DATA, "gradients", "nearly repeated"])
def test_approximate_levels_are_near_optimal_with_a_certified_gap(seed, name):
    rng = np.random.default_rng(seed)
    count = 1 << 16
    if name == "gradients":  # mostly zeros, with heavy tails
        values = rng.normal(size=count) * rng.standard_cauchy(count).clip(-50, 50) * (rng.random(count) < 0.2)
    elif name == "nearly repeated":
        values = rng.integers(0, 100, count) * 1e-3 + rng.integers(0, 2, count) * rng.normal(0, 1e-6, count)
    else:
        values = DATA[name](rng, count)
    values = values.astype(np.float32)
    for intervals in (4, 64, 256):
        best = optimal_levels(values, intervals, return_info=True)[1]
        levels, info = levels_of(values, intervals, method="approximate")
        assert np.isin(levels, values).all()
        assert cost_of(levels, values) == pytest.approx(info.cost, rel=1e-9, abs=1e-12)
        assert info.bound <= best.cost * (1 + 1e-12) and best.bound <= info.cost * (1 + 1e-12)
        if name in ("normal", "laplace", "lognormal", "uniform", "repeated"):
            assert info.cost <= best.cost * (1.001 if intervals <= 64 else 1.01)
            assert info.gap <= (0.002 if intervals <= 64 else 0.02)


@pytest.mark.parametrize("name", ["normal", "laplace", "lognormal", "uniform"])
def test_the_bound_holds_in_coarse_bins(seed, name):
    """With few bins the bound is below the minimum cost over all levels, including levels inside bins."""
    values = DATA[name](np.random.default_rng(seed), 400)
    bins = bins_of(values, np.arange(16, 400, 16))
    curve = bins.curve()
    best = best_costs(values, 12)
    for intervals in range(1, 13):
        bound = _bound(bins, search(curve, intervals), intervals)
        assert bound <= best[intervals - 1] * (1 + 1e-9)
        if intervals == 1:
            assert bound == pytest.approx(best[0])  # exact, because no level is inside a bin


def test_approximate_levels_of_weighted_values(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.laplace(size=30_000), rng.exponential(size=30_000)
    best = optimal_levels(values, 32, weights=weights, return_info=True)[1]
    levels, info = levels_of(values, 32, method="approximate", weights=weights)
    assert cost_of(levels, values, weights) == pytest.approx(info.cost, rel=1e-9)
    assert info.bound <= best.cost <= info.cost <= 1.001 * best.cost


def test_few_values_are_all_candidates_of_the_approximate_method(seed):
    values = np.random.default_rng(seed).normal(size=1000)
    assert np.array_equal(optimal_levels(values, 9, method="approximate"), optimal_levels(values, 9))


def test_values_of_any_shape_order_and_dtype(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(20, 30)).astype(np.float32)
    kept = values.copy()
    levels = optimal_levels(values, 5)
    assert np.array_equal(values, kept)
    assert np.array_equal(levels, optimal_levels(values.ravel().astype(np.float64)[::-1], 5))
    assert optimal_levels([3, 1, 2, 9, 4], 1).tolist() == [1, 9]
    assert np.array_equal(bitlane.optimal_levels(values, 5, weights=np.ones((20, 30))), levels)


@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_fewer_values_than_levels(method):
    for values in ([2.5], [2.5] * 10_000):
        levels, info = levels_of(values, 3, method=method)
        assert levels.tolist() == [2.5] * 4 and info.cost == info.bound == info.gap == 0
    levels, info = levels_of([1.0, 7.0, 3.0] * 5_000, 4, method=method)
    assert levels.tolist() == [1, 3, 7, 7, 7] and info.cost == 0
    levels, info = levels_of([1.0, 7.0, 3.0] * 5_000, 1, method=method)
    assert levels.tolist() == [1, 7] and info.cost == 5_000 * 8 == pytest.approx(info.bound)


def test_values_of_weight_zero_are_ignored():
    assert optimal_levels([5, 1, 2, 9], 1, weights=[1, 0, 2, 0]).tolist() == [2, 5]


@pytest.mark.parametrize("scale", [1e-300, 1e-140, 1e140, 1e300])
@pytest.mark.parametrize("method", ["exact", "approximate"])
def test_values_of_any_size(seed, scale, method):
    """The squares of such values overflow or underflow float64; the scaled levels are equal."""
    values = np.round(np.random.default_rng(seed).normal(size=10_000), 3)
    exponent = int(np.log2(scale))
    expected = optimal_levels(values, 8, method=method)
    scaled = np.ldexp(values, exponent)
    assert np.array_equal(levels_of(scaled, 8, method=method)[0], np.ldexp(expected, exponent))
    for heavy in (2.0**-1000, 2.0**1000):
        levels, info = levels_of(values, 8, method=method, weights=np.full(len(values), heavy))
        assert np.array_equal(levels, expected) and info.cost == pytest.approx(heavy * cost_of(levels, values))
    far = levels_of([-1.7e308, 1e-300, 1.7e308], 1, method=method)[0]
    assert far.tolist() == [-1.7e308, 1.7e308]


@pytest.mark.skipif(jit.numba() is None, reason="Python lists need more memory")
def test_memory_is_at_most_64_bytes_a_value(seed):
    values = np.random.default_rng(seed).normal(size=1 << 18)
    weights = np.ones(len(values))
    optimal_levels(values[:100], 5)  # compiles the loops
    tracemalloc.start()
    optimal_levels(values, 256, weights=weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    optimal_levels(values, 256, method="approximate")
    approximate = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 64 * len(values)
    assert approximate <= 5e6  # for any number of values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": []}, "values is empty"),
        ({"values": [1.0, np.nan, np.inf]}, "values holds 2 NaN or infinite"),
        ({"values": ["a"]}, "values holds <U1: it must contain real numbers"),
        ({"values": [1j]}, "values holds complex128"),
        ({"intervals": 0}, "intervals=0 is invalid: choose an integer of at least 1"),
        ({"intervals": 2.0}, "intervals=2.0"),
        ({"intervals": True}, "intervals=True"),
        ({"method": "best"}, "method='best' is unknown: choose one of exact, approximate"),
        ({"weights": [1, -2, 1]}, "weights contains -2: weights must be at least 0"),
        ({"weights": [0, 0, 0]}, "weights contains only 0"),
        ({"weights": [1, 2]}, "weights has 2 numbers, but values has 3"),
        ({"weights": [1, 2, np.nan]}, "weights holds 1 NaN"),
    ],
)
def test_invalid_arguments_are_refused(change, message):
    arguments = {"values": [1.0, 2.0, 3.0], "intervals": 1} | change
    with pytest.raises(DataError, match=message):
        optimal_levels(**arguments)
