"""Sums over all rows from a device: bit for bit those of plain integers, and near those of float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.sgd_textbook import textbooks

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base
from bitlane.contract.state import ModelState
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane.training.device_sums import DeviceSums

BUILDS = (
    AcceleratorConfig(max_features=64, row_buffer_beats=256),
    AcceleratorConfig(128, 2, max_features=128, row_buffer_beats=256),
    AcceleratorConfig(256, 1, max_features=128, row_buffer_beats=256, shards=2, ports=2),
)
LOSS_NAMES = ("squared_error", "log_loss")


def random_table(rng: np.random.Generator, config: AcceleratorConfig, loss: str, rows: int) -> tuple[Any, ...]:
    """Codes, labels int16, and the geometry: sometimes with equal rows, with one label for all, or sorted by it."""
    digits, features = int(rng.choice([1, 2, 4, 8])), int(rng.integers(1, 64))
    geometry = Geometry(
        features,
        rows,
        digits,
        False,
        rows,
        config.rows_per_beat,
        config.outputs,
        shards=config.shards,
        ports=config.ports,
    )
    least = rng.choice([0, (1 << 2 * digits) - 1])  # all values of a table may be the largest one
    codes = rng.integers(least, 1 << 2 * digits, (rows, features)).astype(np.uint32)
    labels = rng.integers(-32767, 32768, (rows, config.outputs))
    if loss == "log_loss":
        labels = np.where(labels < 0, -32767, 32767)
    kind = rng.integers(3)
    labels = (
        np.sort(labels, axis=0)
        if kind == 1
        else np.full_like(labels, rng.choice([-32767, 1000]))
        if kind == 2
        else labels
    )
    return codes, labels.astype(np.int16), geometry


def float_sums(codes: Any, labels: Any, geometry: Geometry, weights: Any, loss: str) -> tuple[Any, Any]:
    """Mean losses [outputs] and gradients [outputs, s] in float64."""
    base = 1 << 2 * geometry.base_digits
    q = (2.0 * codes + 1 - base) / base
    z, y = q @ weights.T, labels / 32768
    if loss == "squared_error":
        return ((z - y) ** 2 / 2).mean(axis=0), (z - y).T @ q / len(q)
    sign = np.where(labels >= 0, 1.0, -1.0)
    return np.logaddexp(0, -sign * z).mean(axis=0), (-sign / (1 + np.exp(sign * z))).T @ q / len(q)


@pytest.mark.parametrize("config", BUILDS, ids=["64 bits", "2 outputs", "shards and ports"])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("kind", [CpuDevice, EmulatorDevice])
def test_sums_are_those_of_float64(seed: int, config: AcceleratorConfig, loss: str, kind: Any) -> None:
    """Nothing saturates, whatever the order of rows and labels, while the losses are within what was promised."""
    rng = np.random.default_rng(seed)
    driver = Driver(kind(config, 16 << 20))
    for _ in range(5):
        codes, labels, geometry = random_table(rng, config, loss, int(rng.integers(1, 400)))
        size = rng.choice([1e-3, 1.0, 100.0]) if loss == "log_loss" else rng.choice([1e-3, 1.0])
        weights = rng.normal(size=(config.outputs, geometry.features))
        base = 1 << 2 * geometry.base_digits
        weights *= min(size, 7 / np.abs((2.0 * codes + 1 - base) / base @ weights.T).max())  # scores below 8
        expected = float_sums(codes, labels, geometry, weights, loss)[0].max()
        with DeviceSums(driver, pack_base(codes, labels, geometry), geometry, loss) as sums:
            found = sums.at(weights, float(expected) * 1.01)
        assert sums.outputs == config.outputs and found.saturations == 0
        largest = max(np.abs(weights).max(), 6 / 256)
        assert np.abs(found.weights - weights).max() <= 2.0**-20 * largest / 3
        losses, gradients = float_sums(codes, labels, geometry, found.weights, loss)
        size = 2.0**-16 * max(1.0, float(expected))  # of rounding, for squares
        assert np.abs(found.losses - losses).max() <= (2.0**-9 if loss == "log_loss" else size)
        assert np.abs(found.gradients - gradients).max() <= (2.0**-10 if loss == "log_loss" else size)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_sums_are_those_of_plain_integers(seed: int, loss: str) -> None:
    """The textbook in Python integers moves the same weights, with the registers that the driver writes."""
    rng = np.random.default_rng(seed)
    config = BUILDS[1]
    for _ in range(3):
        codes, labels, geometry = random_table(rng, config, loss, int(rng.integers(1, 60)))
        geometry = replace(geometry, batch=geometry.rows)
        asked: list[ModelState] = []
        driver = Driver(CpuDevice(config, 16 << 20))
        run = driver.run

        def recorded(job: Any, run=run, asked=asked, **options: Any) -> Any:
            asked.append(job.state)
            return run(job, **options)

        driver.run = recorded  # type: ignore[method-assign]
        weights = rng.normal(size=(2, geometry.features))
        with DeviceSums(driver, pack_base(codes, labels, geometry), geometry, loss) as sums:
            found = sums.at(weights, 20.0)
        (state,) = asked
        step = (state.settings.step & 0xFFFF) * 2.0 ** -(13 + (state.settings.step >> 16))
        models = textbooks(geometry, state.settings, state.master)
        unit = 2.0**-32 / geometry.rows * (0.5 if loss == "squared_error" else 1)
        for output, model in enumerate(models):
            before = list(model.master)
            total = model.epoch(codes.tolist(), [[0] * geometry.features] * geometry.rows, labels[:, output].tolist())
            moved = np.array(before) - np.array(model.master)
            assert found.losses[output] == total * unit
            assert np.allclose(found.gradients[output], moved * 2.0**-28 / step / geometry.rows, rtol=1e-12, atol=0)
            assert np.array_equal(
                found.weights[output], [(a >> 8) * 2.0 ** (state.settings.weight_exponent - 20) for a in before]
            )


def test_weights_of_any_size_are_read(seed: int) -> None:
    """Large ones at the range of the device, tiny ones with the finest unit, and zeros."""
    rng = np.random.default_rng(seed)
    config = BUILDS[0]
    codes, labels, geometry = random_table(rng, config, "log_loss", 20)
    with DeviceSums(
        Driver(CpuDevice(config, 1 << 20)), pack_base(codes, labels, geometry), geometry, "log_loss"
    ) as sums:
        for size in (0.0, 1e-9, 1e-3, 1.0, 6.4, 100.0, 831.0, 1e6):
            weights = np.full((1, geometry.features), size)
            read = sums.at(weights, 1000.0).weights
            assert np.allclose(read, min(size, 832.0), atol=2.0**-29 + size * 2.0**-22)


def test_a_table_larger_than_the_device_is_refused_and_memory_is_freed(seed: int) -> None:
    config = BUILDS[0]
    codes, labels, geometry = random_table(np.random.default_rng(seed), config, "squared_error", 300)
    words = pack_base(codes, labels, geometry)
    with pytest.raises(DeviceError, match="no room for"):
        DeviceSums(Driver(EmulatorDevice(config, 4096)), np.tile(words, 20)[:600], geometry, "squared_error")
    device = EmulatorDevice(config, 1 << 20)
    with DeviceSums(Driver(device), words, geometry, "squared_error") as sums:
        sums.at(np.zeros((1, geometry.features)), 1.0)
        assert device.allocated == 1
    assert device.allocated == 0
