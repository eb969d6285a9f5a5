"""The complete accelerator between bus agents of cocotbext-axi has the bits of the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.job import Job
from bitlane_sim.cocotb.recording import record
from bitlane_sim.cocotb.runner import run_bench, unavailable_reason
from bitlane_sim.rtl.build import TOP, verilog
from bitlane_verify.equivalence.random_jobs import random_job


def small_job(seed: int, config: AcceleratorConfig) -> Job:
    """Return a run of some thousand cycles."""
    return random_job(np.random.default_rng(seed), config, features=100, rows=12 * config.rows_per_beat, epochs=3)


@pytest.mark.slow  # compiles the whole accelerator for cocotb; `tests/verify/equivalence` runs it in the simulator
@pytest.mark.skipif(bool(unavailable_reason()), reason=unavailable_reason())
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
