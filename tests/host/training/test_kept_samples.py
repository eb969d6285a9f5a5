"""Trainings one after the other on samples that stay on the device: their bits, and what they move."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.training.kept_samples import KeptSamples
from bitlane.training.options import TrainingOptions
from bitlane.training.train import prepare, train, train_rows

SMALL = AcceleratorConfig(max_features=256, row_buffer_beats=256)
BUILDS = {
    "one port": SMALL,
    "an encoder": replace(SMALL, encoder=2),
    "encoders on two ports": replace(SMALL, width=256, shards=2, ports=2, encoder=4),
}
OPTIONS = TrainingOptions(precision=Precision(4), draws=3, epochs=5, learning_rate=0.01, batch_size=7)


class Counted(EmulatorDevice):
    """An emulator that counts its encodings, and the bytes that the host copies to it."""

    copied = encodings = 0

    def _encoding(self) -> Any:
        self.encodings += 1
        return super()._encoding()

    def flush(self, buffer: Any) -> None:
        self.copied += buffer.array.nbytes
        super().flush(buffer)


def table(seed: int, rows: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(-99, 99, (rows, 90)).astype(np.float32), rng.integers(-99, 99, rows).astype(np.float64)


def same_bits(a: Any, b: Any) -> bool:
    return np.array_equal(a.coef, b.coef) and np.array_equal(a.loss, b.loss) and a.cycles == b.cycles


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_later_trainings_move_only_models(build: AcceleratorConfig, seed: int) -> None:
    """Other rates, epochs and penalties read the samples of the first training, with the bits of one without them."""
    X, y = table(seed)
    device, other = Counted(build, 64 << 20), EmulatorDevice(build, 64 << 20)
    changes = ({}, {"learning_rate": 0.03}, {"epochs": 9, "decay": 0.9}, {"alpha": 0.01}, {"staleness": 1})
    moved = []
    with KeptSamples() as kept:
        for change in changes:
            options = replace(OPTIONS, **{k: v for k, v in change.items() if k != "alpha"})
            if "alpha" in change:
                options = replace(options, objective=replace(options.objective, penalty="l2", alpha=0.01))
            copied, encodings = device.copied, device.encodings
            found = train(X, y, options, device, kept=kept)
            assert same_bits(found, train(X, y, options, other))
            moved.append((device.copied - copied, device.encodings - encodings))
            assert ("encode" in found.phases) == ("copy" in found.phases) == (len(moved) == 1)
        assert device.allocated > 0
    assert device.allocated == 0
    assert moved[0][0] > 10 * max(copied for copied, _ in moved[1:])
    assert all(encodings == 0 for _, encodings in moved[1:]) and (moved[0][1] > 0) == (build.encoder > 0)


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"precision": Precision(8)}, {"draws": 2}, {"batch_size": 8}, {"shuffle": True}, "X", "y"],
    ids=str,
)
def test_other_samples_take_their_place(change: Any, seed: int) -> None:
    (X, y), build = table(seed), BUILDS["encoders on two ports"]
    device = Counted(build, 64 << 20)
    with KeptSamples() as kept:
        train(X, y, OPTIONS, device, kept=kept)
        buffers, encodings = device.allocated, device.encodings
        options = OPTIONS if isinstance(change, str) else replace(OPTIONS, **change)
        if isinstance(change, str):  # two values change places, and all scales stay
            moved = X[:, 3] if change == "X" else y
            moved[0], moved[1:3] = 7, (8, 9)
            train(X, y, OPTIONS, device, kept=kept)
            encodings = device.encodings
            moved[1:3] = 9, 8
        found = train(X, y, options, device, kept=kept)
        assert device.encodings > encodings and device.allocated == buffers
        assert same_bits(found, train(X, y, options, EmulatorDevice(build, 64 << 20)))


def test_one_preparation_serves_many_trainings(seed: int) -> None:
    """Then the host only starts the device and reads the models."""
    X, y = table(seed)
    driver = Driver(EmulatorDevice(BUILDS["an encoder"], 64 << 20))
    first, rows = prepare(X, y, OPTIONS, [driver])
    with KeptSamples() as kept:
        runs = [train_rows(first, rows, driver, kept=kept) for _ in range(3)]
    assert [sorted(run.phases) for run in runs] == [["copy", "encode", "train"], ["train"], ["train"]]
    assert all(same_bits(run, train(X, y, OPTIONS, driver.device)) for run in runs)


def test_data_of_several_launches_is_not_kept(seed: int) -> None:
    X, y = table(seed)
    device = EmulatorDevice(SMALL, 64 << 10)
    with KeptSamples() as kept:
        with pytest.warns(UserWarning, match="the samples do not stay on the device: the training takes several laun"):
            found = train(X, y, replace(OPTIONS, draws="epoch", epochs=12), device, kept=kept)
        assert found.launches > 1 and device.allocated == 0


def test_targets_of_several_passes_are_not_kept(seed: int) -> None:
    X, y = table(seed)
    both, device = np.column_stack([y, -y]), EmulatorDevice(SMALL, 64 << 20)
    with KeptSamples() as kept, pytest.warns(UserWarning, match="the targets take 2 passes; train those of one pass"):
        found = train(X, both, OPTIONS, device, kept=kept)
    assert same_bits(found, train(X, both, OPTIONS, device)) and device.allocated == 0


@pytest.mark.parametrize("capacity", range(24, 208, 24))
def test_a_training_that_leaves_no_samples_warns(capacity: int, seed: int) -> None:
    """From KiB for few rows, over those for all samples, to those for the raw rows beside them."""
    X, y = table(seed)
    device = EmulatorDevice(BUILDS["an encoder"], capacity << 10)
    with KeptSamples() as kept, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = train((X + 100).astype(np.uint8), y, OPTIONS, device, kept=kept)
        assert (device.allocated == 0) == (found.launches > 1) == bool(told)
    where = "beside the raw rows" if capacity > 100 else "the training takes several launches"
    assert all(where in str(each.message) for each in told) and len(told) == (capacity in (24, 48, 120, 144))


def test_a_failure_leaves_nothing_behind(seed: int) -> None:
    X, y = table(seed)
    device = EmulatorDevice(BUILDS["an encoder"], 64 << 20)

    def fail(epoch: int, loss: float) -> None:
        raise KeyboardInterrupt

    with KeptSamples() as kept:
        with pytest.raises(KeyboardInterrupt):
            train(X, y, OPTIONS, device, on_epoch=fail, kept=kept)
        assert same_bits(train(X, y, OPTIONS, device, kept=kept), train(X, y, OPTIONS, device))
    assert device.allocated == 0
