"""MQGrad against a plain implementation of the paper; each numbered decision; and its results in training."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from tests.helpers.policy_steps import alone, step
from tests.helpers.policy_textbook import Textbook

from bitlane.compress import MQGrad
from bitlane.errors import DataError
from bitlane.policies.mqgrad import HIDDEN
from bitlane.policies.qnetwork import QNetwork
from bitlane.support.hashing import derive_seed

NEVER = {"exploration": 0.0}


def run(chooser, losses, seconds):
    """Return the bits of each step."""
    used = []
    for loss, time in zip(losses, seconds, strict=True):
        used.append(chooser.bits)
        chooser.after(step(loss, time), alone)
    return used


def wandering(rng, steps):
    """Return losses that decrease and increase, and times."""
    losses = np.abs(2 + np.cumsum(rng.normal(scale=0.1, size=steps)))
    return losses, rng.uniform(0.5, 2.0, steps)


def test_a_run_equals_the_textbook(seed):
    rng = np.random.default_rng(seed)
    settings = MQGrad(smoothing=0.2, scale=20.0, exploration=0.3, seed=seed % 1000)
    chooser = settings.start()
    losses, seconds = wandering(rng, 1500)
    explored = [derive_seed(settings.seed, 1, number) < 0.3 * 2**32 for number in range(301)]
    book = Textbook(chooser.state_dict(), explored, settings.choices, 0.2, 20.0, 0.9, 0.1)
    for number in range(300):
        steps = slice(5 * number, 5 * number + 5)
        run(chooser, losses[steps], seconds[steps])
        assert book.period(number + 1, losses[steps].tolist(), sum(seconds[steps])) == chooser.bits
    state = chooser.state_dict()
    np.testing.assert_allclose(state["into_hidden"], book.inward, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state["into_outputs"], book.outward, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("choices", [tuple(range(2, 9)), (2, 4, 6, 8), (3, 4)])
def test_bits_stay_within_the_choices_and_change_once_a_period(seed, choices):
    rng = np.random.default_rng(seed)
    used = run(MQGrad(choices=choices, exploration=0.5, seed=seed % 1000).start(), *wandering(rng, 1000))
    assert used[:5] == [choices[0]] * 5
    assert set(used) <= set(choices)
    periods = np.reshape(used, (-1, 5))
    assert (periods == periods[:, :1]).all()
    numbers = [choices.index(bits) for bits in periods[:, 0]]
    assert np.diff(numbers).max() <= 2  # an increase directly after an exploration that kept the bits
    assert np.diff(numbers).min() >= -1  # an exploration that ends


# --- decisions, with their numbers in the module
def test_1_keeping_has_the_value_of_its_output():
    chooser = MQGrad(period=2, **NEVER).start()
    state = chooser.state_dict()
    state["output_bias"][:] = [0.0, 3.0, 2.0, 9.0, 9.0, 9.0, 9.0]
    chooser.load_state_dict(state)
    used = run(chooser, [1.0] * 8, [1.0] * 8)
    assert used == [2, 2, 3, 3, 3, 3, 3, 3]  # 9 is out of reach behind 2


def test_2_bits_increased_for_exploration_fall_back():
    chooser = MQGrad(rate=0.0, exploration=0.3).start()
    used = run(chooser, [1.0] * 1000, [1.0] * 1000)
    assert set(used) == {2, 3}
    assert (3, 2) in list(pairwise(used))


def test_2_a_tie_keeps_the_bits():
    assert set(run(MQGrad(**NEVER).start(), [1.0] * 200, [1.0] * 200)) == {2}


def test_3_exploration_has_its_probability(seed):
    """In 4,000 periods, within five standard deviations. All values stay equal, so the greedy action keeps the bits."""
    periods = 4000
    settings = MQGrad(period=2, rate=0.0, exploration=0.1, seed=seed)
    used = run(settings.start(), [1.0] * (2 * periods), [1.0] * (2 * periods))
    assert abs(used[2::2].count(3) / (periods - 1) - 0.1) < 5 * math.sqrt(0.09 / periods)


def test_5_a_decreasing_loss_is_rewarded_and_an_increasing_one_raises_bits():
    falling, rising = MQGrad(**NEVER).start(), MQGrad(**NEVER).start()
    time = np.ones(100)
    assert set(run(falling, np.linspace(2, 1, 100), time)) == {2}
    assert falling.state_dict()["output_bias"][0] > 0
    assert run(rising, np.linspace(1, 2, 100), time)[-1] > 2


def test_5_less_time_gives_more_reward():
    losses = np.linspace(2, 1.9, 10)
    value = []
    for seconds in (0.5, 1.0, 2.0):
        chooser = MQGrad(smoothing=0.05, **NEVER).start()
        run(chooser, losses, [1.0] * 5 + [seconds] * 5)  # the first choice learns nothing yet
        run(chooser, losses[-5:], [seconds] * 5)
        value.append(chooser.state_dict()["output_bias"][0])
    assert value[0] > value[1] > value[2] > 0


def test_6_units_of_loss_and_time_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    losses, seconds = wandering(rng, 1000)
    one = run(MQGrad(smoothing=0.1, scale=30).start(), losses, seconds)
    assert run(MQGrad(smoothing=0.1, scale=30).start(), 2.0**-20 * losses, 1024.0 * seconds) == one


def test_6_losses_of_any_size_and_sign(seed):
    rng = np.random.default_rng(seed)
    chooser = MQGrad(smoothing=1.0, scale=1e6).start()
    losses = rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000)
    losses[0] = 0.0
    used = run(chooser, losses, np.zeros(2000))
    assert set(used) <= set(range(2, 9))
    assert all(np.isfinite(each).all() for name, each in chooser.state_dict().items() if name != "state")


def test_8_values_stay_within_their_bound(seed):
    """The test gives 3,000 rewards of +-1 in states at the limits of clipping."""
    rng = np.random.default_rng(seed)
    chooser = MQGrad(smoothing=1.0, scale=1e6, period=2).start()
    network, most = QNetwork(2, HIDDEN, 7, 0), 0.0
    signs = np.where(rng.random(3000) < 0.9, -1.0, 1.0)  # mostly decreasing losses
    for sign in signs:
        start = rng.uniform(-3, 3)
        run(chooser, [start, start + sign], [1.0, 1.0])
        state = chooser.state_dict()
        network.load_state_dict(state)
        most = max(most, float(abs(network.values(state["state"])).max()))
    assert 1.0 < most < 15.0


def test_9_a_nonfinite_loss_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    losses, seconds = wandering(rng, 200)
    chooser = MQGrad(smoothing=0.1, scale=30).start()
    run(chooser, losses, seconds)
    before = chooser.state_dict()
    run(chooser, [1.0, math.nan, 1.0, 1.0, 1.0], [1.0] * 5)
    after = chooser.state_dict()
    for name in set(before) - {"periods", "losses"}:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


# --- results in training
def test_it_finds_the_best_bits_more_often_than_chance(seed):
    """The loss decreases to a limit that is lower with more bits, up to 4; a step takes longer with more bits."""
    floors = {2: 1.6, 3: 0.8}
    shares, losses = [], []
    for each in range(12):
        rng = np.random.default_rng([seed, each])
        chooser = MQGrad(seed=int(rng.integers(1 << 30))).start()
        loss, used = 2.3, []
        for _ in range(2000):
            bits = chooser.bits
            used.append(bits)
            loss += 0.01 * (floors.get(bits, 0.2) - loss)
            chooser.after(step(loss * (1 + 0.05 * rng.normal()), 0.5 + 0.25 * bits), alone)
        losses.append(loss)
        shares.append(used.count(4) / len(used))
    assert np.median(losses) < 0.5  # 3 bits and less end at 0.8; one run in 200 has not left them after 2,000 steps
    assert np.mean(shares) > 1 / 7


def test_the_same_seed_makes_the_same_choices(seed):
    losses, seconds = wandering(np.random.default_rng(seed), 500)
    one, same, other = (run(MQGrad(seed=each).start(), losses, seconds) for each in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_restored_state_continues_identically(seed):
    rng = np.random.default_rng(seed)
    losses, seconds = wandering(rng, 400)
    at = int(rng.integers(400))
    settings = MQGrad(smoothing=0.1, scale=30, exploration=0.3)
    one, other = settings.start(), settings.start()
    run(one, losses[:at], seconds[:at])
    other.load_state_dict(one.state_dict())
    assert run(other, losses[at:], seconds[at:]) == run(one, losses[at:], seconds[at:])
    ended = other.state_dict()
    for name, value in one.state_dict().items():
        assert np.asarray(value).tobytes() == np.asarray(ended[name]).tobytes(), name


def test_a_saved_state_is_a_copy():
    chooser = MQGrad(**NEVER).start()
    run(chooser, [2.0] * 10, [1.0] * 10)
    saved = chooser.state_dict()
    kept = {name: np.copy(value) for name, value in saved.items()}
    run(chooser, [1.0] * 50, [1.0] * 50)
    for name, value in saved.items():
        np.testing.assert_array_equal(value, kept[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"choices": (8, 2)}, "ascending"),
        ({"period": 1}, "period must be 2 steps or more; got 1"),
        ({"exploration": 1.5}, "exploration must be from 0 to 1; got 1.5"),
        ({"rate": -0.1}, "rate must be from 0 to 1; got -0.1"),
        ({"smoothing": math.nan}, "smoothing must be from 0 to 1; got nan"),
        ({"discount": 2}, "discount must be from 0 to 1; got 2"),
        ({"scale": 0.0}, "scale must be finite and above 0; got 0.0"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(DataError, match=message):
        MQGrad(**settings)


def test_a_state_of_other_settings_is_rejected():
    state = MQGrad().start().state_dict()
    with pytest.raises(DataError, match="shape"):
        MQGrad(choices=(2, 4)).start().load_state_dict(state)


def test_the_repr_has_all_settings():
    names = [field.name for field in dataclasses.fields(MQGrad)]
    assert all(f"{name}=" in repr(MQGrad()) for name in names)
