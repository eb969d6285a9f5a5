"""Codes: correct for known values, and unbiased for all values."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes

EVERY = [Precision(bits, "double") for bits in (2, 4, 8, 30)]
EVERY += [Precision(bits, "nearest") for bits in (2, 6, 16)]
EVERY += [Precision(bits, "naive") for bits in (2, 4, 20)] + [Precision(32, "full")]


def values(seed, rows, n, limit=1.0):
    return np.random.default_rng(seed).uniform(-limit, limit, (rows, n))


def words_for(values, seed):
    return np.random.default_rng(seed + 1).integers(1 << 32, size=values.shape, dtype=np.uint32)


def read(codes, precision):
    """Return the values in [-1, 1] that base codes stand for."""
    return (2.0 * codes + 1 - 2.0**precision.base_bits) / 2.0**precision.base_bits


@pytest.mark.parametrize(
    ("bits", "sampling", "base_bits", "digits", "levels"),
    [
        (2, "double", 0, 1, 2),
        (4, "double", 2, 2, 5),
        (8, "double", 6, 4, 65),
        (4, "naive", 4, 2, 16),
        (6, "nearest", 6, 3, 64),
        (32, "full", 32, 16, 1 << 32),
    ],
)
def test_precisions(bits, sampling, base_bits, digits, levels):
    precision = Precision(bits, sampling)
    assert (precision.base_bits, precision.digits, precision.levels) == (base_bits, digits, levels)
    assert precision.base_digits + precision.draws == digits


@pytest.mark.parametrize("bits", [0, 1, 3, 34, 4.0, "4", True, None])
def test_unsupported_bits_are_refused(bits):
    with pytest.raises(DataError, match=r"bits=.*even number from 2 to 32"):
        Precision(bits)


def test_unknown_and_contradictory_samplings_are_refused():
    with pytest.raises(DataError, match=r"sampling='twice'.*double, nearest, naive, full"):
        Precision(4, "twice")
    with pytest.raises(DataError, match="set bits=32"):
        Precision(8, "full")


@pytest.mark.parametrize("precision", [p for p in EVERY if p.sampling != "naive"], ids=str)
def test_base_codes_number_the_intervals(seed, precision):
    v = values(seed, 30, 5)
    v[0] = [-1, -0.5, 0, 0.5, 1]
    codes = base_codes(value_positions(v, precision), precision)
    assert codes.dtype == np.uint32
    intervals = 1 << precision.base_bits
    for x, code in zip(v.ravel(), codes.ravel().tolist(), strict=True):
        assert code == min(intervals - 1, floor((Fraction(x) + 1) * intervals / 2))


@pytest.mark.parametrize("sampling", ["nearest", "full"])
def test_middles_are_at_most_half_an_interval_away(seed, sampling):
    precision = Precision(32 if sampling == "full" else 6, sampling)
    v = values(seed, 100, 7)
    middles = read(base_codes(value_positions(v, precision), precision), precision)
    assert np.abs(middles - v).max() <= 2.0**-precision.base_bits


@pytest.mark.parametrize("precision", [p for p in EVERY if p.draws], ids=str)
def test_draws_are_unbiased_and_independent(seed, precision):
    count = 40_000
    v = np.repeat(values(seed, 1, 6), count, axis=0)
    v[:, 0], v[:, 1], v[:, 2] = -1, 1, 0
    base = base_codes(value_positions(v[:1], precision), precision)
    draws = draw_codes(value_positions(v, precision), precision, words_for(v, seed))
    assert draws.dtype == np.uint8 and draws.max() <= 3
    signs = np.stack([draws >> 1, draws & 1]) * 2.0 - 1
    read_as = read(base, precision) + signs * 2.0**-precision.base_bits
    error = read_as - v
    spread = 2.0**-precision.base_bits
    assert np.abs(error.mean(axis=1)).max() < 5 * spread / np.sqrt(count)
    assert np.abs((error[0] * error[1]).mean(axis=0)).max() < 5 * spread**2 / np.sqrt(count)
    assert not error[:, :, 0].any() and not error[:, :, 1].any()  # the ends of the range are levels


@pytest.mark.parametrize("precision", [p for p in EVERY if p.sampling == "naive"], ids=str)
def test_naive_codes_are_unbiased_neighbours(seed, precision):
    count = 40_000
    v = np.repeat(values(seed, 1, 5, precision.limit), count, axis=0)
    v[:, 0], v[:, 1] = -precision.limit, precision.limit
    error = read(base_codes(value_positions(v, precision), precision, words_for(v, seed)), precision) - v
    step = 2.0 * 2.0**-precision.base_bits
    assert np.abs(error).max() <= step * (1 + 1e-9)
    assert np.abs(error.mean(axis=0)).max() < 5 * step / 2 / np.sqrt(count) + 1e-15
    assert np.abs(error[:, :2]).max() < 1e-12


@pytest.mark.parametrize("precision", [p for p in EVERY if p.draws or p.sampling == "naive"], ids=str)
def test_draws_change_exactly_at_the_threshold(seed, precision):
    """A draw is 1 for all uniform numbers below the position in the interval, rounded half up to 16 bits."""
    rng, base_bits = np.random.default_rng(seed), precision.base_bits
    naive = precision.sampling == "naive"
    for place in [0, 1 << base_bits + 20, *rng.integers(0, (1 << base_bits + 20) + 1, 200).tolist()]:
        last, moved = (1 << base_bits) - 1, place - (1 << 19 if naive else 0)
        moved = min(max(moved, 0), last << 20) if naive else moved
        code = min(moved >> 20, last)
        threshold = floor(Fraction(moved - (code << 20), 16) + Fraction(1, 2))
        for uniform in {max(threshold - 1, 0), min(threshold, 65535)}:
            positions, words = np.array([[float(place)]]), np.array([[uniform << 16 | uniform]], np.uint32)
            upper = uniform < threshold
            if naive:
                assert base_codes(positions, precision, words)[0, 0] == code + upper
            else:
                assert base_codes(positions, precision)[0, 0] == code
                assert draw_codes(positions, precision, words)[0, 0] == 3 * upper


def test_naive_needs_random_words():
    with pytest.raises(DataError, match="random numbers"):
        base_codes(np.zeros((1, 1)), Precision(4, "naive"))


def test_values_out_of_range_are_clipped():
    v = np.array([[-1.5, 1.5]])
    positions, words = value_positions(v, Precision(4)), words_for(v, 0)
    assert base_codes(positions, Precision(4)).tolist() == [[0, 3]]
    assert draw_codes(positions, Precision(4), words).tolist() == [[0, 3]]
    naive = Precision(4, "naive")
    assert base_codes(value_positions(v, naive), naive, words).tolist() == [[0, 15]]
