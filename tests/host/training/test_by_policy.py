"""A policy chooses the bits of each epoch: every epoch equals a training with these bits, and the result lists them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.helpers.trainings import trained

from bitlane.compress import FixedBits, MQGrad
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.estimators.sgd import SGDClassifier, SGDRegressor
from bitlane.training.by_policy import MQGRAD, policy_of
from bitlane.training.result import joined


@dataclass(frozen=True)
class Listed:
    """A policy with a fixed list of bits; its chooser records the observations."""

    bits_of_epochs: tuple[int, ...]
    choices: tuple[int, ...] = (2, 4, 6, 8)

    def start(self):
        return _Chooser(self)


class _Chooser:
    seen: list = []  # noqa: RUF012 - observations of the last training

    def __init__(self, policy):
        self.policy = policy
        _Chooser.seen = []

    @property
    def bits(self):
        return self.policy.bits_of_epochs[min(len(self.seen), len(self.policy.bits_of_epochs) - 1)]

    def after(self, observed, share):
        assert share([1.0]) == [[1.0]]
        self.seen.append((observed.loss, observed.seconds, observed.rms()))


def table(seed, rows=300, n=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


@pytest.mark.parametrize("draws", ["epoch", "once", 2])
@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_each_epoch_equals_a_training_with_its_bits(seed, draws, loss):
    """The expected epochs are trainings at fixed precision that resume from the checkpoint of the previous epoch."""
    X, y = table(seed)
    y = y if loss == "squared_error" else np.where(y > np.median(y), 1.0, -1.0)
    bits = (4, 2, 8, 8, 6, 2)
    options = {"draws": draws, "loss": loss, "learning_rate": 0.05, "decay": 0.9, "batch_size": 8}
    device = EmulatorDevice()
    estimator = SGDRegressor if loss == "squared_error" else SGDClassifier
    model = estimator(Listed(bits), epochs=6, device=device, shuffle=False, random_state=3, **options)
    run = model.fit(X, y, snapshots=True).run_
    checkpoint = None
    for epoch, each in enumerate(bits):
        if checkpoint is not None:
            checkpoint = replace(checkpoint, options=replace(checkpoint.options, precision=Precision(each)))
        one = trained(
            X,
            y,
            precision=Precision(each),
            device=EmulatorDevice(),
            epochs=epoch + 1,
            seed=3,
            resume=checkpoint,
            **options,
        )
        checkpoint = one.checkpoint()
        np.testing.assert_array_equal(run.snapshots[epoch], one.weights)
        assert run.loss[epoch] == one.loss[0]
        assert np.diff(run.epoch_cycles, prepend=0)[epoch] >= one.epoch_cycles[0]
    np.testing.assert_array_equal(run.bits, bits)
    assert checkpoint.options.precision.bits == 2
    np.testing.assert_array_equal(run.checkpoint().master, checkpoint.master)


def test_a_policy_with_one_choice_equals_fixed_bits(seed):
    X, y = table(seed)
    fixed, chosen = (
        SGDRegressor(bits, epochs=5, device="emulator", random_state=1).fit(X, y, snapshots=True).run_
        for bits in (4, FixedBits(4))
    )
    np.testing.assert_array_equal(chosen.snapshots, fixed.snapshots)
    np.testing.assert_array_equal(chosen.loss, fixed.loss)
    np.testing.assert_array_equal(chosen.bits, fixed.bits)
    model = 8 * (chosen.beats - fixed.beats) // 4  # each epoch after the first is a launch that loads the model again
    assert 0 < model < 1000
    assert chosen.bytes_read == fixed.bytes_read + 4 * model
    assert chosen.epoch_bytes.sum() == chosen.bytes_read
    assert chosen.cycles > fixed.cycles


def test_each_number_of_bits_has_its_own_automatic_rate(seed):
    """After three epochs the steps are those of a training with the last bits in all epochs."""
    X, y = table(seed)
    changing, fixed = (
        SGDRegressor(bits, epochs=3, device="emulator", random_state=1).fit(X, y).run_.checkpoint()
        for bits in (Listed((2, 4, 8)), 8)
    )
    assert changing.settings == fixed.settings
    assert changing.options.learning_rate == fixed.options.learning_rate


def test_fewer_bits_take_fewer_cycles_and_the_policy_observes_them(seed):
    X, y = table(seed, n=64)
    run = SGDRegressor(Listed((2, 8, 4)), epochs=3, device="emulator", random_state=0).fit(X, y).run_
    cycles = [seconds for _, seconds, _ in _Chooser.seen]
    assert cycles[0] < cycles[2] < cycles[1]
    assert sum(cycles) == run.cycles
    assert [loss for loss, _, _ in _Chooser.seen] == run.loss.tolist()
    assert all(rms > 0 for _, _, rms in _Chooser.seen)
    assert run.epoch_bytes[0] < run.epoch_bytes[2] < run.epoch_bytes[1]
    assert run.epoch_bytes.sum() == run.bytes_read


def test_mqgrad_chooses_repeatably_among_its_bits(seed):
    X, y = table(seed)
    runs = [
        SGDRegressor("mqgrad", epochs=12, device="emulator", random_state=seed % 1000).fit(X, y).run_ for _ in range(2)
    ]
    assert set(runs[0].bits) <= set(MQGRAD.choices)
    assert "MQGrad(" in runs[0].settings["bit_policy"]
    np.testing.assert_array_equal(runs[0].bits, runs[1].bits)
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    assert len(runs[0].bits) == len(runs[0].loss) == len(runs[0].epoch_cycles) == 12


def test_runs_are_joined_in_order(seed):
    X, y = table(seed)
    one = SGDRegressor(4, epochs=2, device="emulator", random_state=1).fit(X, y).run_
    both = joined([one, one])
    assert both.cycles == 2 * one.cycles
    assert both.epoch_cycles.tolist() == [*one.epoch_cycles, *(one.epoch_cycles + one.cycles)]
    assert both.stalls.model == 2 * one.stalls.model
    assert both.bound.raw == 2 * one.bound.raw


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"bits": "few"}, "bits='few'"),
        ({"bits": "mqgrad", "sampling": "nearest"}, "'double'"),
        ({"bits": "mqgrad", "levels": "optimal"}, "'uniform'"),
        ({"bits": MQGrad(choices=(2, 3))}, "even"),
    ],
)
def test_unsupported_options_of_a_policy_are_refused(parameters, says):
    X, y = table(0)
    with pytest.raises(DataError, match=says):
        SGDRegressor(**parameters, device="emulator").fit(X, y)


def test_a_training_with_a_policy_cannot_be_resumed():
    X, y = table(0)
    model = SGDRegressor("mqgrad", epochs=2, device="emulator").fit(X, y)
    with pytest.raises(DataError, match="cannot be resumed"):
        model.fit(X, y, resume=model.run_.checkpoint())


def test_a_number_of_bits_is_not_a_policy():
    assert policy_of(4) is policy_of(np.int64(4)) is None
    assert policy_of("mqgrad") == MQGRAD
