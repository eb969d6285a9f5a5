"""The dot lanes against numpy, with cocotb."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.testbenches import run_block

from bitlane_sim.cocotb.runner import BenchSimulator
from bitlane_sim.cocotb.variant import small

UNAVAILABLE = BenchSimulator().unavailable_reason()


@pytest.mark.slow  # compiles the block; `tests/hw/datapath` simulates it without a compiler
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
def test_lanes(tmp_path: Path, seed: int) -> None:
    from bitlane_hw.datapath.dot import DotLanes

    run_block(DotLanes(small()), "lanes", small(), tmp_path, seed)
