"""Rounding, saturation, and the register format of step and penalty step."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from bitlane.contract.fixed_point import (
    NO_DECAY,
    decayed,
    decode_float,
    encode_float,
    round_half_up,
    saturate,
    split_float,
)
from bitlane.contract.formats import PENALTY_STEP_FRACTION, RESIDUAL, STEP_FRACTION
from bitlane.errors import DataError


def test_round_half_up_is_floor_of_x_plus_a_half(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-(1 << 40), 1 << 40, 200)
    x[:8] = [-3, -2, -1, 0, 1, 2, 3, 4]
    for n in (0, 1, 2, 7, 31):
        expected = [floor(Fraction(int(value), 1 << n) + Fraction(1, 2)) if n else value for value in x]
        assert round_half_up(x, n).tolist() == expected


def test_round_half_up_takes_an_array_of_shifts(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-(1 << 40), 1 << 40, (50, 3))
    n = rng.integers(0, 36, (50, 3))
    each = [round_half_up(value, int(by)) for value, by in zip(x.ravel(), n.ravel(), strict=True)]
    assert round_half_up(x, n).ravel().tolist() == each


def test_saturate_clips_and_marks():
    x = np.array([RESIDUAL.minimum - 1, RESIDUAL.minimum, 0, RESIDUAL.maximum, RESIDUAL.maximum + 1])
    values, clipped = saturate(x, RESIDUAL)
    assert values.tolist() == [RESIDUAL.minimum, RESIDUAL.minimum, 0, RESIDUAL.maximum, RESIDUAL.maximum]
    assert clipped.tolist() == [True, False, False, False, True]


def test_mantissa_exponent_is_within_half_a_unit(seed):
    for value in 2.0 ** np.random.default_rng(seed).uniform(-28, 2.99, 200):
        register = encode_float(value, STEP_FRACTION)
        mantissa, exponent = split_float(register)
        assert 1 << 15 <= mantissa < 1 << 16 and 0 <= exponent < 32
        unit = 2.0 ** -(STEP_FRACTION + exponent)
        assert abs(decode_float(register, STEP_FRACTION) - value) <= unit / 2


@pytest.mark.parametrize(
    ("value", "fraction", "register"),
    [
        (0.0, STEP_FRACTION, 0),
        (1.0, STEP_FRACTION, 0x8000 | 2 << 16),
        (4.0, STEP_FRACTION, 0x8000),
        (8 - 2**-13, STEP_FRACTION, 0xFFFF),
        (1 - 2**-18, STEP_FRACTION, 0x8000 | 2 << 16),  # rounds up to the next power of two
        (2.0**-44, STEP_FRACTION, 1 | 31 << 16),
        (0.5, PENALTY_STEP_FRACTION, 0x8000),
    ],
)
def test_mantissa_exponent_examples(value, fraction, register):
    assert encode_float(value, fraction) == register


@pytest.mark.parametrize("value", [8.0, 7.99999, -0.1, float("nan"), float("inf"), 2.0**-46])
def test_values_outside_the_register_range_are_refused(value):
    with pytest.raises(DataError, match="the step is"):
        encode_float(value, STEP_FRACTION, "the step")


def test_decay_truncates_less_than_a_unit(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        register = int(rng.integers(1 << 15, 1 << 16)) | int(rng.integers(0, 31)) << 16
        decay = int(rng.integers(1 << 15, NO_DECAY + 1))
        value = decode_float(register, STEP_FRACTION)
        after = decode_float(decayed(register, decay), STEP_FRACTION)
        exact = value * decay / NO_DECAY
        assert exact * (1 - 2**-15) <= after <= exact
        assert split_float(decayed(register, decay))[0] >= 1 << 15


def test_decay_of_one_and_at_the_largest_exponent():
    assert decayed(0x8001 | 3 << 16, NO_DECAY) == 0x8001 | 3 << 16
    assert decayed(0x1235 | 31 << 16, NO_DECAY) == 0x1235 | 31 << 16
    assert decayed(0x8001 | 31 << 16, 1 << 15) == 0x4000 | 31 << 16
