"""Positions: those of exact arithmetic for short numbers, and at most a rounding away for others."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from bitlane.contract.precision import Precision
from bitlane.errors import DataError
from bitlane.quantization.positions import position_map, value_positions
from bitlane.quantization.scaling import RECIPROCAL_BITS, fit_scaling, reciprocal


def table(rng, dtype):
    return (rng.normal(rng.normal(0, 40, 6), rng.choice([1, 5, 30], 6), (40, 6)).clip(-99, 99) + 100).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("bits", [2, 4, 16, 30])
def test_products_of_short_numbers_are_exact(seed, dtype, bits):
    """So hardware with an integer multiplier has the same positions, but for clipping."""
    X = table(np.random.default_rng(seed), dtype)
    mapped = position_map(fit_scaling(X, np.zeros((40, 1))), Precision(bits))
    found, top = mapped.positions(X), 1 << bits - 2 + 20
    for j, (multiplier, offset) in enumerate(zip(mapped.multipliers, mapped.offsets, strict=True)):
        assert Fraction(multiplier).numerator.bit_length() <= RECIPROCAL_BITS or float(multiplier).is_integer()
        assert float(offset).is_integer()
        exact = [floor(Fraction(float(x)) * Fraction(multiplier)) + int(offset) for x in X[:, mapped.columns[j]]]
        assert found[:, j].tolist() == [min(max(each, 0), top) for each in exact]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_positions_are_those_of_float64(seed, dtype):
    """The offset is rounded to half a unit, and the product down: less than two units of 2**-20 of an interval."""
    X = table(np.random.default_rng(seed), dtype)
    for bits in (2, 8, 20):
        scaling, precision = fit_scaling(X, np.zeros((40, 1))), Precision(bits)
        unit = 2.0 ** (precision.base_bits + 19)
        exact = (scaling.values(X) + 1) * unit
        assert np.abs(position_map(scaling, precision).positions(X) - exact).max() < 2
        assert np.abs(value_positions(scaling.values(X), precision) - exact).max() <= 1


def test_scales_are_reciprocals_of_short_numbers(seed):
    """At most 2**-23 larger than the range of the column, whatever its exponent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 50)) * 2.0 ** rng.uniform(-800, 1000, 50)
    scaling = fit_scaling(X, np.zeros((30, 1)), fit_intercept=False)
    span = np.abs(X).max(axis=0)
    assert (scaling.scale >= span * (1 - 2.0**-52)).all() and (scaling.scale <= span * (1 + 2.0**-22)).all()
    short = reciprocal(scaling.scale)
    assert np.array_equal(1 / short, scaling.scale)
    mantissa = np.ldexp(np.frexp(short)[0], RECIPROCAL_BITS)
    assert np.array_equal(mantissa, np.rint(mantissa))
    assert np.abs(scaling.values(X)).max() <= 1


def test_the_ends_of_a_column_are_the_ends_of_the_range(seed):
    X = np.random.default_rng(seed).uniform(-3, 3, (50, 4))
    X[0], X[1] = 3, -3
    scaling = fit_scaling(X, np.zeros((50, 1)), fit_intercept=False)
    found = position_map(scaling, Precision(4)).positions(X)
    assert np.abs(found[1]).max() <= 1 and np.abs(found[0] - (1 << 22)).max() <= 1


def test_tiny_ranges_are_refused():
    with pytest.raises(DataError, match=r"the range of a column of X is too small \(1e-300\)"):
        fit_scaling(np.array([[1e-300], [-1e-300]]), np.zeros((2, 1)))
