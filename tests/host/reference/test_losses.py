"""The losses of the reference for every dot product."""

import numpy as np
import pytest

from bitlane.contract.modes import Loss
from bitlane.reference.machine import losses


def every_dot():
    """Yield every z of 24 bits in blocks, as float64 values, with both labels."""
    for start in range(-(1 << 23), 1 << 23, 1 << 20):
        z = np.arange(start, start + (1 << 20))
        for label in (-1, 1):
            yield z, z * 2.0**-20, label


def slope_and_loss(loss, z, labels):
    (r1, r2), value, clipped = losses(loss, [z, z], labels)
    assert r1.tolist() == r2.tolist() and clipped == 0
    return r1 * 2.0**-20, value * 2.0**-32


def test_hinge_is_exact_everywhere():
    for z, value, label in every_dot():
        slope, loss = slope_and_loss(Loss.HINGE, z, np.full(len(z), 32767 * label))
        assert np.array_equal(loss, np.maximum(0, 1 - label * value))
        assert np.array_equal(slope, np.where(label * value < 1, -label, 0))


def test_the_logistic_loss_is_within_the_limits_of_the_contract():
    """The limits are 2**-10 for the slope and 2**-9 for the loss, plus half a unit of the lookup table."""
    rounding = 2.0**-19
    for z, value, label in every_dot():
        slope, loss = slope_and_loss(Loss.LOGISTIC, z, np.full(len(z), label))
        assert np.abs(slope - (1 / (1 + np.exp(-value)) - (label > 0))).max() <= 2.0**-10 + rounding
        assert np.abs(loss - np.logaddexp(0, -label * value)).max() <= 2.0**-9 + rounding
        assert (np.abs(slope) < 1).all() and (loss > 0).all()
        assert (np.sign(slope) == -label).all()


def test_squares_are_exact_everywhere(seed):
    rng = np.random.default_rng(seed)
    for z, value, _ in every_dot():
        labels = rng.integers(-32768, 32768, len(z))
        (r1, _), square, clipped = losses(Loss.SQUARES, [z, z], labels)
        exact = value - labels / 32768
        assert np.array_equal(r1 * 2.0**-20, np.clip(exact, -8, 8 - 2.0**-20))
        assert clipped == 2 * np.count_nonzero(r1 * 2.0**-20 != exact)
        assert np.abs(square * 2.0**-32 - (r1 * 2.0**-20) ** 2).max() <= 2.0**-33


@pytest.mark.parametrize("loss", Loss)
def test_dot_products_beyond_the_range_are_clipped(loss):
    far = np.array([-(1 << 40), -(1 << 23) - 1, 1 << 23, 1 << 40])
    ends = np.clip(far, -(1 << 23), (1 << 23) - 1)
    labels = np.array([32767, -1, 0, -32768])
    slopes, values, clipped = losses(loss, [far, far], labels)
    expected = losses(loss, [ends, ends], labels)
    assert np.array_equal(slopes, expected[0]) and np.array_equal(values, expected[1])
    assert clipped - expected[2] == (8 if loss == Loss.SQUARES else 0)
