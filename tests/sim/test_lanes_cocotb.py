"""The dot lanes against numpy, with cocotb."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_sim.cocotb_bench.runner import why_not
from bitlane_sim.cocotb_bench.variant import small

from .blocks import run_block


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_lanes(tmp_path: Path, seed: int) -> None:
    from bitlane_hw.dot import DotLanes

    run_block(DotLanes(small()), "lanes", small(), tmp_path, seed)
