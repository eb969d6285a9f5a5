"""The value network against a plain one with a numerical gradient; steps have the right direction and length."""

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.policies.qnetwork import QNetwork

NAMES = ("into_hidden", "hidden_bias", "into_outputs", "output_bias")


def drawn(rng, inputs=5, hidden=10, outputs=7):
    """Return a network with random weights in all layers."""
    network = QNetwork(inputs, hidden, outputs, 0)
    network.load_state_dict({name: rng.normal(size=array.shape) for name, array in network.state_dict().items()})
    return network


def textbook(weights, state):
    hidden = np.maximum(state @ weights["into_hidden"] + weights["hidden_bias"], 0)
    return weights["into_outputs"] @ hidden + weights["output_bias"]


def test_values_equal_the_textbook(seed):
    rng = np.random.default_rng(seed)
    network, state = drawn(rng), rng.normal(size=5)
    np.testing.assert_allclose(network.values(state), textbook(network.state_dict(), state), rtol=1e-12, atol=1e-12)


def test_a_step_is_along_the_gradient(seed):
    rng = np.random.default_rng(seed)
    network, state = drawn(rng), rng.normal(size=5)
    before = network.state_dict()
    network.update_value(state, 3, 1e-3)
    after = network.state_dict()
    gradient = {}
    for name in NAMES:
        gradient[name] = np.zeros_like(before[name])
        for place in np.ndindex(before[name].shape):
            ends = []
            for nudge in (-1e-6, 1e-6):
                moved = {other: before[other].copy() for other in NAMES}
                moved[name][place] += nudge
                ends.append(textbook(moved, state)[3])
            gradient[name][place] = (ends[1] - ends[0]) / 2e-6
    length = max(1.0, sum(float((each**2).sum()) for each in gradient.values()))
    for name in NAMES:
        np.testing.assert_allclose(after[name] - before[name], 1e-3 * gradient[name] / length, rtol=1e-5, atol=1e-10)


def test_initial_values_are_equal(seed):
    network = QNetwork(5, 10, 7, seed % 2**32)
    assert not network.values(np.random.default_rng(seed).normal(size=5)).any()
    hidden = network.state_dict()["into_hidden"]
    assert abs(hidden).max() <= 1 / np.sqrt(5)
    assert len(np.unique(hidden)) > 40  # random, and not all equal


def test_different_seeds_give_different_weights():
    one, other = (QNetwork(5, 10, 7, seed).state_dict()["into_hidden"] for seed in (1, 2))
    assert (one != other).any()


def test_steps_do_not_overshoot(seed):
    """The target is fixed; weights and states are random within their allowed range."""
    rng = np.random.default_rng(seed)
    network = drawn(rng)
    state = rng.uniform(-2, 2, 5)
    misses = []
    for _ in range(200):
        misses.append(4.0 - network.values(state)[2])
        network.update_value(state, 2, 0.1 * misses[-1])
    assert abs(misses[-1]) < 0.01 * abs(misses[0]) + 1e-9
    assert max(map(abs, misses)) <= abs(misses[0]) * 1.2  # the gradient changes slightly during a step


def test_the_state_of_a_network_of_another_shape_is_rejected():
    with pytest.raises(DataError, match="into_outputs"):
        QNetwork(5, 10, 7, 0).load_state_dict(QNetwork(5, 10, 4, 0).state_dict())
