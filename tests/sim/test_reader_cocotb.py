"""The reader on a memory of cocotbext-axi."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_sim.cocotb_bench.runner import why_not

from .blocks import run_block


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_reader(tmp_path: Path, seed: int) -> None:
    from bitlane_hw.reader import Reader
    from bitlane_sim.cocotb_bench.bench_reader import CONFIG

    run_block(Reader(CONFIG), "reader", tmp_path, seed)
