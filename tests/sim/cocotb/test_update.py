"""The update stage against numpy, with cocotb."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.testbenches import run_block

from bitlane_sim.cocotb.runner import BenchSimulator
from bitlane_sim.cocotb.variant import small

UNAVAILABLE = BenchSimulator().unavailable_reason()


@pytest.mark.slow  # compiles the block; `tests/hw/datapath` simulates it without a compiler
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
@pytest.mark.parametrize("width", [64, 128])
def test_update(tmp_path: Path, seed: int, width: int) -> None:
    from bitlane_sim.cocotb.update_stage import UpdateStage

    config = small(width)
    run_block(UpdateStage(config), "update", config, tmp_path, seed)
