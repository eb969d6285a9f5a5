"""The emulator: host and device have separate copies of a buffer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane import SGDRegressor
from bitlane.devices.emulator import EmulatorDevice


def test_a_copy_whose_memory_was_mapped_from_a_file_works(tmp_path: Path, seed: int) -> None:
    """As joblib sends an open device to another process, read only."""
    joblib = pytest.importorskip("joblib")
    X = np.random.default_rng(seed).normal(size=(30, 3))
    device = EmulatorDevice(capacity_bytes=1 << 20)
    joblib.dump(device, tmp_path / "device")
    copy = joblib.load(tmp_path / "device", mmap_mode="r")
    first, second = (
        SGDRegressor(epochs=1, random_state=seed, device=each).fit(X, X[:, 0]).coef_ for each in (device, copy)
    )
    assert first.tolist() == second.tolist() and copy.allocated == 0


def test_unflushed_writes_are_not_visible():
    device = EmulatorDevice()
    buffer = device.allocate(20)
    assert len(buffer.array) == 3
    buffer.array[:] = 7
    device.invalidate(buffer)
    assert buffer.array.tolist() == [0, 0, 0]
    buffer.array[:] = 7
    device.flush(buffer)
    buffer.array[:] = 0
    device.invalidate(buffer)
    assert buffer.array.tolist() == [7, 7, 7]
