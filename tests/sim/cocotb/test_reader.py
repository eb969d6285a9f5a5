"""The reader on a memory of cocotbext-axi."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.testbenches import run_block

from bitlane_sim.cocotb.runner import unavailable_reason
from bitlane_sim.cocotb.variant import small


@pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason())
@pytest.mark.parametrize(("width", "outputs"), [(64, 1), (128, 3), (512, 2)])
def test_reader(tmp_path: Path, seed: int, width: int, outputs: int) -> None:
    from bitlane_hw.memory.reader import Reader

    config = small(width, outputs)
    run_block(Reader(config), "reader", config, tmp_path, seed)
