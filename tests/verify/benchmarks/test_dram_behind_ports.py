"""Epochs with a DRAM behind the port: the same model, more cycles, and no more bytes than its bus carries."""

from __future__ import annotations

import dataclasses

import pytest

from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.dram import DDR3_PYNQ
from bitlane_verify.benchmarks import dram
from bitlane_verify.benchmarks.dram import DramBuild, epoch_rows
from bitlane_verify.equivalence.random_jobs import SMALL


def test_a_bus_as_slow_as_the_port_limits_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dram, "FEATURES", 200)
    slow = dataclasses.replace(DDR3_PYNQ, bytes_per_second=0.4e9)
    with RtlDevice(SMALL) as device:
        (fast_row,) = epoch_rows(DramBuild(SMALL, 100e6, DDR3_PYNQ), device, (4,), 3000)
        (slow_row,) = epoch_rows(DramBuild(SMALL, 100e6, slow), device, (4,), 3000)
    assert fast_row[5] == slow_row[5]
    assert 0.8 < float(fast_row[7]) < 1
    assert 0.3 < float(slow_row[7]) < 0.5
    assert float(slow_row[8]) <= 0.4
