"""The self test on the RTL: all is well, in exactly the cycles predicted, and in more on a memory that stalls."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.selftest import SelfTestReport, examine, speed
from bitlane_sim.equivalence.random_jobs import DIGIT_LANES, SMALL
from bitlane_sim.equivalence.rig import CAPACITY
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.harness import Disturbance


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 64)


def examined(config: AcceleratorConfig, seed: int, disturbance: Disturbance | None = None) -> SelfTestReport:
    with RtlDevice(config, CAPACITY, disturbance=disturbance) as device:
        report = examine(device, seed)
        assert device.free_bytes == CAPACITY
    assert report.passed, report.text()
    return report


def cycles(report: SelfTestReport) -> list[tuple[float, float]]:
    """Measured and predicted cycles of every check that gives both."""
    pairs = [(r.figures["cycles"], r.figures["predicted"]) for r in report.results if "predicted" in r.figures]
    assert len(pairs) > 40
    return [(float(measured), float(predicted)) for measured, predicted in pairs]


@pytest.mark.parametrize(
    "config",
    DIGIT_LANES,
    ids=lambda config: f"{config.width}x{config.outputs}",
)
def test_the_rtl_passes_in_the_predicted_cycles(config: AcceleratorConfig, seed: int) -> None:
    for measured, predicted in cycles(examined(config, seed)):
        assert measured == predicted


def test_a_memory_that_stalls_costs_cycles_and_nothing_else(seed: int) -> None:
    pairs = cycles(examined(SMALL, seed, Disturbance(seed, stall_ar=0.1, stall_r=0.3, stall_w=0.1, outstanding=2)))
    assert all(measured > predicted for measured, predicted in pairs)
