"""Planned launches and buffers against a device that counts what it is asked for.

`tests/sim/test_planned_work.py` holds the planned cycles against the simulated hardware.
"""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.software import SoftwareBuffer
from bitlane.errors import DataError
from bitlane.planning.work import TrainingSize, estimate_work
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.train import train


class CountingDevice(EmulatorDevice):
    """An emulator that keeps the most bytes its buffers took at a time."""

    most = 0

    def allocate(self, nbytes: int, port: int = 0) -> SoftwareBuffer:
        buffer = super().allocate(nbytes, port)
        self.most = max(self.most, sum(self._buffers.values()))
        return buffer


@pytest.mark.parametrize("encoder", [0, 4])
@pytest.mark.parametrize("pages", [12, 20, 30, 45, 60, 400])
def test_buffers_are_those_that_a_training_allocates(seed: int, pages: int, encoder: int) -> None:
    rng = np.random.default_rng(seed)
    config = AcceleratorConfig(max_features=512, encoder=encoder)
    X = rng.integers(0, 200, (int(rng.integers(200, 400)), int(rng.integers(20, 60)))).astype(np.uint8)
    options = TrainingOptions(Precision(4), draws="epoch", epochs=7, batch_size=10, learning_rate=0.001)
    device = CountingDevice(config, pages * 4096)
    run = train(X, rng.normal(size=len(X)), options, device)
    size = TrainingSize(*X.shape, value_type=VALUE_TYPES[X.dtype])
    planned = estimate_work(size, options, config, device.capacity_bytes)
    assert (planned.launches, planned.bytes_read) == (run.launches, run.bytes_read)
    assert planned.buffer_bytes == device.most or (run.encoding_cycles and device.most <= planned.buffer_bytes)
    assert bool(planned.encoding_cycles) == bool(run.encoding_cycles)


def test_samples_without_draws_are_encoded_once(seed: int) -> None:
    """However many launches read them: the snapshots of many epochs take several."""
    rng = np.random.default_rng(seed)
    config, options = AcceleratorConfig(encoder=4), TrainingOptions(Precision(8, "nearest"), epochs=200)
    X, y = rng.integers(0, 200, (40, 30)).astype(np.uint8), rng.normal(size=40)
    size, runs = TrainingSize(*X.shape, value_type=VALUE_TYPES[X.dtype]), []
    for pages in (12, 400):
        run = train(X, y, options, EmulatorDevice(config, pages * 4096), snapshots=True)
        planned = estimate_work(size, options, config, pages * 4096, snapshots=True)
        assert (planned.launches, planned.encoding_cycles) == (run.launches, run.encoding_cycles)
        runs.append(run)
    few, many = runs
    assert few.launches > many.launches == 1 and few.encoding_cycles == many.encoding_cycles > 0
    assert np.array_equal(few.coef, many.coef)


def test_targets_share_passes() -> None:
    options = TrainingOptions(epochs=3)
    for outputs, passes in ((1, 10), (3, 4), (10, 1), (15, 1)):
        planned = estimate_work(TrainingSize(100, 20, 10), options, AcceleratorConfig(outputs=outputs), 1 << 24)
        assert planned.passes == passes and planned.launches == passes


@pytest.mark.parametrize(
    ("size", "config", "message"),
    [
        (TrainingSize(10, 600), AcceleratorConfig(max_features=512), "X has 600 features, but the build holds 512"),
        (TrainingSize(10, 500), AcceleratorConfig(row_buffer_beats=80), "buffers 16: lower bits to 2 or below"),
        (TrainingSize(10, 500), AcceleratorConfig(row_buffer_beats=70), "remove features, or .*row_buffer_beats=80"),
        (TrainingSize(10, 50), AcceleratorConfig(level_slots=64), "has table lanes, which read codebooks only"),
    ],
)
def test_what_a_build_cannot_run_is_refused(size: TrainingSize, config: AcceleratorConfig, message: str) -> None:
    with pytest.raises(DataError, match=message):
        estimate_work(size, TrainingOptions(), config, 1 << 24)


def test_random_rounding_needs_a_build_with_it() -> None:
    options = TrainingOptions(model_bits=10)
    with pytest.raises(DataError, match="needs a build with random rounding"):
        estimate_work(TrainingSize(10, 10), options, AcceleratorConfig(), 1 << 24)


def test_a_build_has_no_further_objectives() -> None:
    options = TrainingOptions(objective=Objective("huber"))
    with pytest.raises(DataError, match="no further losses and no elastic net: they need a device in software"):
        estimate_work(TrainingSize(10, 10), options, AcceleratorConfig(), 1 << 24)
    assert estimate_work(TrainingSize(10, 10), options, SoftwareConfig(), 1 << 24).cycles > 0
