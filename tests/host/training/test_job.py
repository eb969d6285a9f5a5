"""A training as one run of the accelerator has the bits of a training by `train`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.trainings import training_options

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DataError
from bitlane.training import job as module
from bitlane.training.job import training_job
from bitlane.training.train import train


def table(seed: int, targets: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 9))
    return X, X @ rng.normal(size=(9, targets)) + 3.0


@pytest.mark.parametrize(
    ("precision", "config", "targets", "options"),
    [
        (Precision(4), AcceleratorConfig(), 1, {"draws": "epoch"}),
        (Precision(4), AcceleratorConfig(128, 3), 2, {"shuffle": True, "penalty": "l2", "alpha": 0.01}),
        (Precision(6, "naive"), AcceleratorConfig(256), 1, {"decay": 0.5}),
        (Precision(3, codebook=True), AcceleratorConfig(level_slots=1024), 1, {"levels": "optimal"}),
        (Precision(8, "nearest"), AcceleratorConfig(random_rounding=True), 1, {"model_bits": 9, "gradient_bits": 8}),
    ],
)
def test_same_bits_as_train(precision, config, targets: int, options: dict[str, Any], seed: int) -> None:
    X, y = table(seed, targets)
    chosen = training_options(precision, epochs=3, batch_size=8, learning_rate=0.05, seed=seed, **options)
    device = EmulatorDevice(config)
    found = Driver(device).run(training_job(X, y, chosen, config))
    expected = train(X, y, chosen, device)
    np.testing.assert_array_equal(found.state.master[:targets], expected.checkpoint().master)
    assert found.counters.beats == expected.beats
    assert (found.state.master[:targets] != found.state.master[0, 0]).any()


def test_what_takes_several_runs_is_refused(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    X, y = table(seed, 2)
    with pytest.raises(DataError, match=r"take several runs of the accelerator.*y: \(50, 2\)"):
        training_job(X, y)
    monkeypatch.setattr(module, "CAPACITY", 3 * 4096)
    with pytest.raises(DataError, match="use fewer rows"):
        training_job(X, y[:, 0])
