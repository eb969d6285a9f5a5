"""The complete accelerator between bus agents of cocotbext-axi has the bits of the emulator."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.job import Job
from bitlane_sim.cocotb.runner import BenchSimulator, run_bench
from bitlane_sim.rtl.build import TOP, verilog
from bitlane_verify.equivalence.random_jobs import random_job

UNAVAILABLE = BenchSimulator().unavailable_reason()


def small_job(seed: int, config: AcceleratorConfig) -> Job:
    """Return a run of some thousand cycles."""
    return random_job(np.random.default_rng(seed), config, features=100, rows=12 * config.rows_per_beat, epochs=3)


@pytest.mark.slow  # compiles the whole accelerator for cocotb; `tests/verify/equivalence` runs it in the simulator
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
def test_run_with_pauses_equals_the_emulator(tmp_path: Path, seed: int) -> None:
    config = AcceleratorConfig(128, max_features=128, row_buffer_beats=256, fifo_beats=64)
    job = tmp_path / "job"
    job.write_bytes(pickle.dumps(small_job(seed, config)))
    module = "bitlane_sim.cocotb.bench_accelerator"
    run_bench(verilog(config), TOP, module, tmp_path, seed, {"BENCH_JOB": str(job)})
