"""Adaptive: one more bit for each doubling of the gradient, within the choices, from the value of rank 0."""

import numpy as np
import pytest
from tests.helpers.policy_steps import alone, step

from bitlane.compress import Adaptive
from bitlane.errors import DataError


def bits_after(rms, **settings):
    """Return the bits after each step, for these root mean squares."""
    chooser = Adaptive(**{"period": 1, **settings}).start()
    found = []
    for size in rms:
        chooser.after(step(rms=size), alone)
        found.append(chooser.bits)
    return found


def test_one_bit_for_each_doubling():
    sizes = [1.0, 2.0, 4.0, 8.0, 0.5, 0.25, 1.4, 1.42]  # sqrt(2) is where 0 and 1 meet
    assert bits_after(sizes) == [4, 5, 6, 7, 3, 2, 4, 5]


def test_the_first_gradient_is_the_reference(seed):
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** rng.uniform(-3, 3, 50)
    scale = 2.0 ** rng.integers(-30, 30)
    assert bits_after(sizes) == bits_after(scale * sizes)


def test_bits_stay_within_the_choices():
    assert bits_after([1.0, 1e6, 1e-6], choices=(3, 4, 5)) == [4, 5, 3]


def test_zero_and_nonfinite_gradients_are_ignored():
    assert bits_after([0.0, np.nan, 1.0, 2.0, np.inf, 0.0, 1.0]) == [4, 4, 4, 5, 5, 5, 4]


def test_one_number_is_exchanged_per_period():
    chooser, sent = Adaptive(period=3).start(), []

    def share(numbers):
        sent.append(list(numbers))
        return [[8.0], list(numbers)]

    sizes = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for size in sizes:
        chooser.after(step(rms=size), share)
    assert sent == [[3.0], [6.0]]
    assert chooser.bits == 4  # rank 0 saw 8 both times


def test_a_restored_state_continues_identically(seed):
    rng = np.random.default_rng(seed)
    sizes = 2.0 ** rng.uniform(-4, 4, 40)
    one, other = Adaptive().start(), Adaptive().start()
    for size in sizes[:17]:
        one.after(step(rms=size), alone)
    other.load_state_dict(one.state_dict())
    for size in sizes[17:]:
        one.after(step(rms=size), alone)
        other.after(step(rms=size), alone)
        assert other.bits == one.bits


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start_bits": 9}, "start_bits must be one of choices=.*; got 9"),
        ({"choices": (4, 2)}, "ascending"),
        ({"choices": (4,)}, "two or more"),
        ({"choices": (0, 4)}, "from 1"),
        ({"period": 0}, "period must be 1 steps or more; got 0"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(DataError, match=message):
        Adaptive(**settings)


def test_the_state_of_another_policy_is_rejected():
    with pytest.raises(DataError, match="no first"):
        Adaptive().start().load_state_dict({"steps": 3})
