"""The whole accelerator between the bus agents of cocotbext-axi, against the emulator: bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.job import Job
from bitlane_sim.cocotb.recording import record
from bitlane_sim.cocotb.runner import run_bench, why_not
from bitlane_sim.equivalence.random_jobs import random_job
from bitlane_sim.rtl.build import TOP, verilog


def small_job(seed: int, config: AcceleratorConfig) -> Job:
    """A run of some thousand cycles."""
    return random_job(np.random.default_rng(seed), config, features=100, rows=12 * config.rows_per_beat, epochs=3)


@pytest.mark.slow  # compiles the whole accelerator for cocotb; `tests/sim/equivalence` runs it in the simulator
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_run_with_pauses_equals_the_emulator(tmp_path: Path, seed: int) -> None:
    config = AcceleratorConfig(128, max_features=128, row_buffer_beats=256, fifo_beats=64)
    record(small_job(seed, config)).save(tmp_path)
    run_bench(
        verilog(config),
        TOP,
        "bitlane_sim.cocotb.replay",
        tmp_path,
        seed,
        {"BENCH_FOLDER": str(tmp_path)},
    )
