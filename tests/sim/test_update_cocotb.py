"""The update stage against numpy, with cocotb."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_sim.cocotb_bench.runner import why_not

from .blocks import run_block


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_update(tmp_path: Path, seed: int) -> None:
    from bitlane_sim.cocotb_bench.bench_update import CONFIG, UpdateStage

    run_block(UpdateStage(CONFIG), "update", tmp_path, seed)
