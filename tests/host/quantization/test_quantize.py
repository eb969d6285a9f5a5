"""Codes: correct for known values, unbiased for all values, and independent of the division into blocks of rows."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.quantize import base_codes, draw_codes

EVERY = [Precision(bits, "double") for bits in (2, 4, 8, 30)]
EVERY += [Precision(bits, "nearest") for bits in (2, 6, 16)]
EVERY += [Precision(bits, "naive") for bits in (2, 4, 20)] + [Precision(32, "full")]


def values(seed, rows, n, limit=1.0):
    return np.random.default_rng(seed).uniform(-limit, limit, (rows, n))


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
    codes = base_codes(v, precision)
    assert codes.dtype == np.uint32
    intervals = 1 << precision.base_bits
    for x, code in zip(v.ravel(), codes.ravel().tolist(), strict=True):
        assert code == min(intervals - 1, floor((Fraction(x) + 1) * intervals / 2))


@pytest.mark.parametrize("sampling", ["nearest", "full"])
def test_middles_are_at_most_half_an_interval_away(seed, sampling):
    precision = Precision(32 if sampling == "full" else 6, sampling)
    v = values(seed, 100, 7)
    assert np.abs(read(base_codes(v, precision), precision) - v).max() <= 2.0**-precision.base_bits


@pytest.mark.parametrize("precision", [p for p in EVERY if p.draws], ids=str)
def test_draws_are_unbiased_and_independent(seed, precision):
    count = 40_000
    v = np.repeat(values(seed, 1, 6), count, axis=0)
    v[:, 0], v[:, 1], v[:, 2] = -1, 1, 0
    base = base_codes(v[:1], precision)
    draws = draw_codes(v, precision, np.random.default_rng(seed + 1))
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
    error = read(base_codes(v, precision, np.random.default_rng(seed + 1)), precision) - v
    step = 2.0 * 2.0**-precision.base_bits
    assert np.abs(error).max() <= step * (1 + 1e-9)
    assert np.abs(error.mean(axis=0)).max() < 5 * step / 2 / np.sqrt(count) + 1e-15
    assert np.abs(error[:, :2]).max() < 1e-12


def test_naive_needs_a_generator():
    with pytest.raises(DataError, match="generator"):
        base_codes(np.zeros((1, 1)), Precision(4, "naive"))


@pytest.mark.parametrize("precision", EVERY, ids=str)
def test_blocks_of_rows_use_the_same_random_numbers(seed, precision, monkeypatch):
    v = values(seed, 101, 3, precision.limit)
    cut = int(np.random.default_rng(seed).integers(1, 100))

    def codes(rng, rows):
        draws = draw_codes(rows, precision, rng) if precision.draws else np.zeros(rows.shape)
        return np.stack([base_codes(rows, precision, None if precision.draws else rng), draws])

    whole = codes(np.random.default_rng(seed), v)
    monkeypatch.setattr("bitlane.quantization.quantize.BLOCK", 20)
    rng = np.random.default_rng(seed)
    parts = [codes(rng, v[:cut]), codes(rng, v[cut:])]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


def test_values_out_of_range_are_clipped():
    v = np.array([[-1.5, 1.5]])
    assert base_codes(v, Precision(4)).tolist() == [[0, 3]]
    assert draw_codes(v, Precision(4), np.random.default_rng(0)).tolist() == [[0, 3]]
    assert base_codes(v, Precision(4, "naive"), np.random.default_rng(0)).tolist() == [[0, 15]]
