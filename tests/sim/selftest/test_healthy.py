"""The self test on the RTL: every build passes in the predicted cycles, and a memory that stalls costs cycles only."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.selftest import SelfTestReport, blocks_of, examine, speed
from bitlane_sim.rtl import build
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence.random_jobs import SMALL, TESTED
from bitlane_verify.equivalence.rig import CAPACITY

# Level slots, rounding, width and outputs: every pair of values is in one of the builds. The emulator covers all 32.
BUILDS = [
    AcceleratorConfig(
        width, outputs, max_features=128, row_buffer_beats=128, level_slots=slots, random_rounding=rounding
    )
    for slots, rounding, width, outputs in (
        *((0, False, 64, 4), (0, True, 128, 1), (0, False, 256, 1), (0, True, 512, 4)),
        *((64, True, 64, 1), (64, False, 128, 4), (64, True, 256, 4), (64, False, 512, 1)),
    )
]


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 64)


def build_name(config: AcceleratorConfig) -> str:
    lanes, rounding = "table" if config.table_lanes else "digit", "random" if config.random_rounding else "nearest"
    return f"{lanes}-{rounding}-{config.width}-{config.outputs}"


def examined(config: AcceleratorConfig, seed: int, disturbance: Disturbance | None = None) -> SelfTestReport:
    with RtlDevice(config, CAPACITY, disturbance=disturbance) as device:
        report = examine(device, seed)
        assert device.free_bytes == CAPACITY
    assert report.passed, report.text()
    assert {result.block for result in report.results} == {block.name for block in blocks_of(config)}
    return report


def cycles(report: SelfTestReport) -> list[tuple[float, float]]:
    """Return the measured and predicted cycles of all checks that report both."""
    pairs = [(r.figures["cycles"], r.figures["predicted"]) for r in report.results if "predicted" in r.figures]
    assert len(pairs) > 40
    return [(float(measured), float(predicted)) for measured, predicted in pairs]


@pytest.mark.parametrize("config", TESTED, ids=build_name)
def test_the_rtl_passes_in_the_predicted_cycles(config: AcceleratorConfig, seed: int) -> None:
    for measured, predicted in cycles(examined(config, seed)):
        assert measured == predicted


def test_a_memory_that_stalls_changes_only_cycles(seed: int) -> None:
    pairs = cycles(examined(SMALL, seed, Disturbance(seed, stall_ar=0.1, stall_r=0.3, stall_w=0.1, outstanding=2)))
    assert all(measured > predicted for measured, predicted in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("config", BUILDS, ids=build_name)
def test_builds_of_every_kind_pass(config: AcceleratorConfig, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled without optimisation, which takes less time than it saves in these short runs."""
    monkeypatch.setattr(build, "COMPILER_FLAGS", tuple("-O0" if f == "-O2" else f for f in build.COMPILER_FLAGS))
    for measured, predicted in cycles(examined(config, seed)):
        assert measured == predicted
