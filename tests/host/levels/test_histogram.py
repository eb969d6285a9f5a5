"""Histograms: each value in one bin, bins in order, correct sums, and small bins where the values are dense."""

import numpy as np
import pytest
from tests.helpers.levels_data import DATA

from bitlane.levels.histogram import _cut, histogram
from bitlane.support import jit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DATA)
def test_bins_hold_the_values_between_their_first_values(seed, name, dtype):
    rng = np.random.default_rng(seed)
    values = DATA[name](rng, 5000).astype(dtype)
    weights = rng.exponential(size=len(values))
    bins = histogram(values, weights, 200)
    assert len(bins.first) <= 801
    assert np.isin(bins.first, values).all() and (np.diff(bins.first) > 0).all()
    assert bins.first[0] == values.min() and bins.first[-1] == values.max()
    # A value equal to the first value of an empty bin belongs to the bin before.
    full = np.flatnonzero(bins.weight)
    of = full[np.searchsorted(bins.first[full], values, "right") - 1]
    away = values - bins.first[of]
    size = len(bins.first)
    assert bins.weight == pytest.approx(np.bincount(of, weights, size))
    assert bins.offset == pytest.approx(np.bincount(of, weights * away, size), abs=1e-9)
    assert bins.square == pytest.approx(np.bincount(of, weights * away**2, size), abs=1e-9)
    assert np.abs(bins.offset - np.bincount(of, weights * away, size)).sum() <= bins.rounding_error <= 1e-9


def test_numba_does_not_change_the_result(seed, monkeypatch):
    if jit.numba() is None:
        pytest.skip("numba is not installed")
    values = np.random.default_rng(seed).standard_cauchy(10_000)
    compiled = histogram(values, None, 100)
    monkeypatch.setattr(jit, "numba", lambda: None)
    plain = histogram(values, None, 100)
    for name in ("first", "weight", "offset", "square"):
        assert np.array_equal(getattr(compiled, name), getattr(plain, name))


def test_blocks_do_not_change_the_result(seed, monkeypatch):
    values = np.random.default_rng(seed).normal(size=1001)
    whole = histogram(values, None, 50)
    monkeypatch.setattr("bitlane.levels.histogram.BLOCK", 100)
    blocks = histogram(values, None, 50)
    assert np.array_equal(whole.first, blocks.first) and np.array_equal(whole.square, blocks.square)


def test_a_repeated_value_gets_a_bin_of_its_own(seed):
    """Gradients behind a rectifier are mostly zeros of both signs, so zero must be a candidate for a level."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=100_000) * (rng.random(100_000) < 0.3)
    for each in (values, np.sort(values), -values):
        bins = histogram(each, None, 500)
        zero = np.flatnonzero(bins.first == 0)
        assert len(zero) == 1 and bins.weight[zero[0]] >= 60_000


def test_tails_get_bins(seed):
    """Optimal levels include rare large values, which bins by quantiles alone would not separate."""
    values = np.concatenate([np.random.default_rng(seed).normal(size=100_000), [30.0, 50.0, 90.0]])
    first = histogram(values, None, 500).first
    assert {30.0, 50.0, 90.0} <= set(first.tolist())


def test_the_last_value_before_a_gap_can_be_a_level(seed):
    values = np.concatenate([np.random.default_rng(seed).normal(size=100_000), [58.82, 58.83, 136.0]])
    assert {58.82, 58.83, 136.0} <= set(histogram(values, None, 500).first.tolist())


def test_parts_are_distributed():
    counts = np.zeros(1 << 16)
    counts[[32768 + 10, 32768 + 16000, 32768 + 16001, 32768 + 16100]] = [1, 500, 300, 200]
    base, pieces, bins = _cut(counts, 100)
    used = np.flatnonzero(counts)
    assert pieces[used].sum() in (99, 100) and pieces[used[0]] == 0
    assert (np.diff(base[used]) >= pieces[used][:-1]).all() and bins == base[used[-1]] + pieces[used[-1]]
