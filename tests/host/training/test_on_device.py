"""A device with an encoder trains with the bits of one without; what it cannot encode, the host encodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.encoder_cases import DTYPES, random_table

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.training.options import TrainingOptions
from bitlane.training.train import train

SMALL = AcceleratorConfig(max_features=64, row_buffer_beats=256)
ROWS = 40


class Counting(EmulatorDevice):
    """An emulator that counts encodings."""

    encodings = 0

    def _encoding(self):
        self.encodings += 1
        return super()._encoding()


def both(X, y, options, encoder=2, capacity=128 << 20):
    """Train without and with an encoder; return the encodings, and check that the results have the same bits."""
    results = []
    for sets in (0, encoder):
        device = Counting(replace(SMALL, encoder=sets), capacity)
        results.append(train(X, y, options, device))
        assert device.allocated == 0
    assert np.array_equal(results[0].coef, results[1].coef)
    assert np.array_equal(results[0].loss, results[1].loss)
    return device.encodings


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("precision", "draws", "encodings"),
    [
        (Precision(4), 3, 2),
        (Precision(16), "epoch", 3),
        (Precision(2), "once", 1),
        (Precision(6, "nearest"), 3, 1),
        (Precision(4, "naive"), 3, 0),
        (Precision(18), 3, 0),
        (Precision(32, "full"), 3, 0),
    ],
    ids=str,
)
def test_bits(dtype, precision, draws, encodings, seed):
    rng = np.random.default_rng(seed)
    X = random_table(rng, np.dtype(dtype), ROWS, 20) if dtype != np.float32 else rng.normal(size=(ROWS, 20))
    options = TrainingOptions(precision=precision, draws=draws, epochs=5, learning_rate=0.01, seed=seed % 1000)
    assert both(X.astype(dtype), rng.normal(size=ROWS), options) == encodings


def test_other_types_are_encoded_by_the_host(seed):
    rng = np.random.default_rng(seed)
    options = TrainingOptions(epochs=2, learning_rate=0.01)
    assert both(rng.normal(size=(ROWS, 5)), rng.normal(size=ROWS), options) == 0


def test_data_without_room_for_its_raw_rows(seed):
    """Several launches encode again and again; if the raw rows do not fit, the host encodes."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 256, (400, 64)).astype(np.uint8), rng.normal(size=400)
    options = TrainingOptions(draws="epoch", epochs=6, learning_rate=0.01)
    assert both(X, y, options, capacity=100 << 10) > 3  # of one launch
    assert both(X, y, options, capacity=60 << 10) == 0


def test_scales_that_the_encoder_cannot_hold(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 5)).astype(np.float32)
    X[:, 3] = 3e8 + 128 * rng.integers(0, 2, ROWS)  # a narrow column far from 0
    options = TrainingOptions(epochs=2, learning_rate=0.01)
    assert both(X, rng.normal(size=ROWS), options) == 0


def test_the_driver_reports_the_encoder():
    assert Driver(EmulatorDevice(replace(SMALL, encoder=3))).config.encoder == 3
