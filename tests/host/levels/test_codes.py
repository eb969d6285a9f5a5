"""Codes of codebook levels: correct for known values, unbiased for all."""

from fractions import Fraction

import numpy as np
import pytest

from bitlane.contract.formats import LEVEL
from bitlane.contract.precision import Precision
from bitlane.levels.codebooks import fit_codebook
from bitlane.levels.codes import codebook_codes, codebook_draws
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import fit_scaling

ONE = 1 << LEVEL.fraction


def words_for(values, seed):
    return np.random.default_rng(seed + 1).integers(1 << 32, size=values.shape, dtype=np.uint32)


def levels_of(rng, base_bits, features):
    """Return random levels, many of them equal, at the ends and in between."""
    levels = np.sort(rng.integers(-ONE, ONE + 1, ((1 << base_bits) + 1, features)), axis=0)
    some = rng.random(levels.shape) < 0.3
    levels = np.maximum.accumulate(np.where(some, -ONE, levels), axis=0)
    levels[:, 0] = ONE  # the intercept feature
    levels[1:, 1] = levels[-1, 1]  # a feature with two values
    return levels.astype(np.int32)


def values_of(rng, levels, rows):
    """Return values within the range of the levels, many of them equal to a level."""
    low, high = levels[0] / ONE, levels[-1] / ONE
    values = low + rng.random((rows, levels.shape[1])) * (high - low)
    chosen = rng.integers(0, len(levels), values.shape)
    on_level = np.take_along_axis(levels, chosen, axis=0) / ONE
    return np.where(rng.random(values.shape) < 0.5, on_level, np.clip(values, low, high))


@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_codes_number_nonempty_intervals(seed, base_bits):
    rng = np.random.default_rng(seed)
    levels = levels_of(rng, base_bits, 9)
    values = values_of(rng, levels, 60)
    codes = codebook_codes(values, levels)
    assert codes.dtype == np.uint32
    for j, own in enumerate(levels.T.tolist()):
        for x, code in zip(values[:, j], codes[:, j].tolist(), strict=True):
            low, high = own[code], own[code + 1]
            assert low <= Fraction(x) * ONE <= high
            assert low < high or own[0] == own[-1]


@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_draws_are_unbiased_and_independent(seed, base_bits):
    count, rng = 40_000, np.random.default_rng(seed)
    levels = levels_of(rng, base_bits, 8)
    row = values_of(rng, levels, 1)
    values = np.repeat(row, count, axis=0)
    codes, draws = codebook_codes(row, levels)[0], codebook_draws(values, levels, words_for(values, seed))
    assert draws.dtype == np.uint8 and draws.max() <= 3
    read = levels[codes + np.stack([draws >> 1, draws & 1]), np.arange(8)] / ONE
    low, high = (levels[codes + k, np.arange(8)] / ONE for k in (0, 1))
    variance = (high - row[0]) * (row[0] - low)
    error = read - values
    assert (np.abs(error.mean(axis=1)) <= 6 * np.sqrt(variance / count) + 1e-6).all()
    assert (np.abs((error**2).mean(axis=1) - variance) <= 6 * (high - low) ** 2 / np.sqrt(count) + 1e-6).all()
    assert (np.abs((error[0] * error[1]).mean(axis=0)) <= 6 * variance / np.sqrt(count) + 1e-6).all()
    assert not error[:, :, variance == 0].any() and (variance == 0).any()


def test_uniform_levels_at_four_bits_have_the_codes_without_a_codebook(seed):
    """Digit lanes and table lanes read the same bits for the same values."""
    X = np.random.default_rng(seed).normal(size=(200, 7))
    scaling = fit_scaling(X, np.zeros((200, 1)), margins=True, intercept_value=1.0)
    values, four = scaling.values(X), Precision(4)
    levels = fit_codebook(X, scaling, Precision(4, codebook=True), "uniform")
    positions, words = value_positions(values, four), words_for(values, seed)
    assert np.array_equal(codebook_codes(values, levels), base_codes(positions, four))
    assert np.array_equal(codebook_draws(values, levels, words), draw_codes(positions, four, words))


def test_values_out_of_range_are_clipped():
    levels = np.array([[-ONE // 2, ONE], [0, ONE], [ONE // 2, ONE]], np.int32)
    values = np.array([[-1.5, 0.0], [1.5, 2.0]])
    assert codebook_codes(values, levels).tolist() == [[0, 0], [1, 0]]
    assert codebook_draws(values, levels, words_for(values, 0))[:, 0].tolist() == [0, 3]
