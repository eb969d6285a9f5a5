"""Levels of columns."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.levels import optimal_levels
from bitlane.sparse.tables.codebooks import KINDS, Codebook, fit_codebook


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_optimal_levels_have_less_variance_than_uniform_ones(seed, bits):
    """Variance of stochastic rounding, from its definition."""
    rows = np.random.default_rng(seed).standard_t(3, (3000, 2)).astype(np.float32)

    def variance(levels, values):
        place = np.clip(np.searchsorted(levels, values, side="right") - 1, 0, len(levels) - 2)
        return float(((levels[place + 1] - values) * (values - levels[place])).sum())

    optimal, uniform = (fit_codebook(rows, bits, kind).levels.astype(np.float64) for kind in ("optimal", "uniform"))
    for column in range(2):
        values = rows[:, column].astype(np.float64)
        assert variance(optimal[column], values) < 0.8 * variance(uniform[column], values)
        np.testing.assert_array_equal(optimal[column], optimal_levels(values, (1 << bits) - 1).astype(np.float32))
        np.testing.assert_allclose(
            uniform[column], np.linspace(values.min(), values.max(), 1 << bits), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_nearest_levels_are_means_of_their_values_and_have_less_error(seed, bits):
    """Each level is the weighted mean of the values nearest to it, found here by distances to all levels."""
    rng = np.random.default_rng(seed)
    rows, weights = rng.standard_t(3, (3000, 2)).astype(np.float32), rng.exponential(size=(3000, 2)) ** 3
    weights[rng.random((3000, 2)) < 0.1] = 0
    found = {kind: fit_codebook(rows, bits, kind, weights.astype(np.float32)).levels for kind in KINDS}
    for column in range(2):
        values, heavy = rows[:, column].astype(np.float64), weights[:, column]

        def error(levels, values=values, heavy=heavy):
            return float((heavy * np.abs(values[:, None] - levels).min(axis=1) ** 2).sum())

        nearest = found["nearest"][column].astype(np.float64)
        assert error(nearest) <= error(found["optimal"][column]) and error(nearest) < error(found["uniform"][column])
        closest = np.abs(values[:, None] - nearest).argmin(axis=1)
        off = [
            abs(np.average(values[closest == level], weights=heavy[closest == level]) - nearest[level])
            for level in range(1 << bits)
            if heavy[closest == level].any()
        ]
        assert np.median(off) < 1e-6  # the last levels may still move when the rounds end


@pytest.mark.parametrize("kind", ["nearest", "optimal"])
def test_few_different_values_keep_their_bits(seed, kind):
    rng = np.random.default_rng(seed)
    different = np.float32([0, -1.7, 0.1, 3e-8])
    rows, weights = rng.choice(different, (500, 1)), rng.exponential(size=(500, 1)).astype(np.float32)
    assert set(fit_codebook(rows, 4, kind, weights).levels[0].tolist()) == set(different.tolist())


def test_a_column_without_weights_counts_evenly(seed):
    rows = np.random.default_rng(seed).normal(size=(300, 1)).astype(np.float32)
    assert fit_codebook(rows, 4, "nearest", np.zeros_like(rows)) == fit_codebook(rows, 4, "nearest")


def test_values_outside_the_levels_are_counted():
    codebook = Codebook(np.float32([[0, 1, 2, 3], [-1, -1, 5, 5]]))
    rows = np.float32([[0, -1], [3, 5], [-0.001, 4], [3.5, 6], [1, -2]])
    assert codebook.count_outside(rows) == 4
    with pytest.raises(DataError, match="a weight is nan: it has no nearest level"):
        codebook.count_outside(np.float32([[np.nan, 0]]))


def test_a_codebook_tells_its_shape():
    codebook = Codebook(np.arange(32).reshape(2, 16))
    assert (codebook.width, codebook.bits) == (2, 4)
    assert codebook == Codebook(np.arange(32.0).reshape(2, 16)) != Codebook(np.arange(1, 33).reshape(2, 16))


@pytest.mark.parametrize(
    "levels, message",
    [
        (np.zeros((1, 5)), "4, 16 or 256"),
        (np.zeros(4), "4, 16 or 256"),
        ([[0, 1, 3, 2]], "must be finite and ascending"),
        ([[0, 1, 2, np.nan]], "finite"),
    ],
)
def test_wrong_levels_are_refused(levels, message):
    with pytest.raises(DataError, match=message):
        Codebook(np.asarray(levels, np.float32))


@pytest.mark.parametrize(
    "rows, bits, kind, message",
    [
        (np.zeros((3, 1)), 3, "optimal", "bits must be one of 2, 4, 8; got 3"),
        (np.zeros((3, 1)), 4, "best", "levels must be one of nearest, optimal, uniform; got 'best'"),
        (np.zeros((0, 1)), 4, "optimal", "at least one row"),
        (np.full((3, 1), np.inf), 4, "optimal", "a weight is inf"),
    ],
)
def test_wrong_arguments_are_refused(rows, bits, kind, message):
    with pytest.raises(DataError, match=message):
        fit_codebook(rows.astype(np.float32), bits, kind)
