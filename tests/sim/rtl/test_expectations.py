"""The complete RTL meets what its blocks expect of each other, in random runs with and without stalls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.verilog import TOP, asserting_verilog
from bitlane_sim.rtl.build import build_verilog
from bitlane_sim.rtl.device import RtlDevice
from bitlane_verify.equivalence.rig import EquivalenceRig

pytestmark = pytest.mark.slow

BUILDS = [
    AcceleratorConfig(128, 2, max_features=512, row_buffer_beats=512, random_rounding=True, shards=2, ports=2),
    AcceleratorConfig(128, 1, max_features=512, row_buffer_beats=512, level_slots=64, random_rounding=True),
]
RUNS = 150


@pytest.fixture(scope="module", params=BUILDS, ids=["digit", "table"])
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EquivalenceRig]:
    source: Path = tmp_path_factory.mktemp("asserting") / "asserting.sv"
    source.write_text(asserting_verilog(Accelerator(request.param), TOP))
    library = build_verilog(source, axi4_ports=request.param.ports, memories=request.param.ports)

    def opened(config: AcceleratorConfig, capacity_bytes: int, timing: MemoryTiming) -> RtlDevice:
        return RtlDevice(config, capacity_bytes, timing, library=library)

    rig = EquivalenceRig([request.param], open_device=opened)
    yield rig
    rig.close()


def test_no_expectation_fails(rig: EquivalenceRig, seed: int) -> None:
    """A failed assertion ends a run with ProtocolError."""
    assert [wrong for number in range(RUNS) if (wrong := rig.run(seed + number))] == []
