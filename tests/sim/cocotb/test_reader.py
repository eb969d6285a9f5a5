"""The reader on a memory of cocotbext-axi."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.testbenches import run_block

from bitlane_sim.cocotb.runner import BenchSimulator
from bitlane_sim.cocotb.variant import small

UNAVAILABLE = BenchSimulator().unavailable_reason()


@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
@pytest.mark.parametrize(("width", "outputs"), [(64, 1), (128, 3), (512, 2)])
def test_reader(tmp_path: Path, seed: int, width: int, outputs: int) -> None:
    from bitlane_hw.memory.reader import Reader

    config = small(width, outputs)
    run_block(Reader(config), "reader", config, tmp_path, seed)
