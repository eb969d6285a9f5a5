"""The update stage against numpy, with cocotb."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_sim.cocotb_bench.runner import why_not
from bitlane_sim.cocotb_bench.variant import small

from .blocks import run_block


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("width", [64, 128])
def test_update(tmp_path: Path, seed: int, width: int) -> None:
    from bitlane_sim.cocotb_bench.update_stage import UpdateStage

    config = small(width)
    run_block(UpdateStage(config), "update", config, tmp_path, seed)
