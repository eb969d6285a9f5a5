"""The text of a training: what a device with an encoder adds to it, and records from before there was one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitlane import SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane.data.tables import Dataset
from bitlane.devices.emulator import EmulatorDevice
from bitlane.reporting.summary import run_record, run_summary

SMALL = AcceleratorConfig(max_features=64, row_buffer_beats=256)


def trained(encoder: int, seed: int):
    rng = np.random.default_rng(seed)
    table = Dataset(rng.integers(0, 256, (60, 5)).astype(np.uint8), rng.normal(size=60), (*"abcde",), "t")
    device = EmulatorDevice(replace(SMALL, encoder=encoder))
    model = SGDRegressor(device=device, epochs=2, random_state=0).fit(table.X, table.y, snapshots=True)
    return model, table


def test_cycles_of_the_encoder_are_told(seed):
    model, table = trained(2, seed)
    text = run_summary(run_record(model, table, "regression", "t"))
    assert f"{model.run_.encoding_cycles:,} cycles of the device's encoder" in text
    model, table = trained(0, seed)
    assert "encoder" not in run_summary(run_record(model, table, "regression", "t"))


def test_a_record_without_these_cycles_can_be_resumed(seed):
    model, table = trained(2, seed)
    earlier = run_record(model, table, "regression", "t")
    del earlier.end["encoding_cycles"]
    both = run_record(model, table, "regression", "t", earlier)
    assert both.end["encoding_cycles"] == model.run_.encoding_cycles
    assert both.end["cycles"] == 2 * model.run_.cycles
