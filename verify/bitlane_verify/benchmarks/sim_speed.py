"""Simulated cycles per second: the device `rtl`, and cocotb with cocotbext-axi, on the same RTL and the same run.

    python -m bitlane_verify.benchmarks.sim_speed

Both wall-clock times are from the first register write to the end of the run, without building and starting.
"""

from __future__ import annotations

import json
import pickle
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitlane.contract.formats import MASTER_OFFSET
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane_sim.cocotb.runner import BenchSimulator, run_bench
from bitlane_sim.rtl.build import TOP, verilog
from bitlane_sim.rtl.device import RtlDevice

REPEATS = 3


@dataclass(frozen=True)
class SimulationSpeed:
    """Simulated cycles and their seconds."""

    name: str
    cycles: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.cycles / self.seconds

    def __str__(self) -> str:
        return f"{self.name:<24}{self.cycles:>12,} cycles {self.seconds:>8.2f} s {self.rate:>12,.0f} cycles/s"


def training(epochs: int) -> Job:
    """Return a job of double sampling at four bits: 256 rows of 256 features in batches of 16."""
    chosen = np.random.default_rng(1)
    geometry = Geometry(features=256, rows=256, base_digits=1, draws=True, batch=16)
    shape = (geometry.rows, geometry.features)
    labels = chosen.integers(-(1 << 15), 1 << 15, (geometry.rows, 1)).astype(np.int16)
    step = 1 << 15 | 12 << 16
    return Job(
        geometry,
        base_regions=[pack_base(chosen.integers(0, 4, shape).astype(np.uint32), labels, geometry)],
        draw_regions=[pack_draws(chosen.integers(0, 4, shape).astype(np.uint8), geometry)],
        state=ModelState(np.full((1, geometry.features), MASTER_OFFSET, np.int32), Settings(step, step)),
        epochs=epochs,
    )


def device_speed(job: Job) -> SimulationSpeed:
    """Return the fastest of `REPEATS` runs of the driver on the device."""
    with RtlDevice() as device:
        accelerator = Driver(device)
        speeds = []
        for _ in range(REPEATS):
            cycles, begin = device.counters.cycles, time.perf_counter()
            accelerator.run(job)
            speeds.append(
                SimulationSpeed("this simulator", device.counters.cycles - cycles, time.perf_counter() - begin)
            )
    return max(speeds, key=lambda speed: speed.rate)


def cocotb_speed(job: Job) -> SimulationSpeed:
    """Return the fastest of `REPEATS` runs under cocotb."""
    speeds = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            environment = {"BENCH_JOB": str(folder / "job"), "BENCH_TIMES": str(folder / "times")}
            (folder / "job").write_bytes(pickle.dumps(job))
            module = "bitlane_verify.benchmarks.cocotb_speed"
            run_bench(verilog(), TOP, module, folder, 1, environment, BenchSimulator(fast=True))
            result = json.loads((folder / "times").read_text())
        speeds.append(SimulationSpeed("cocotb, cocotbext-axi", round(result["cycles"]), result["seconds"]))
    return max(speeds, key=lambda speed: speed.rate)


def main() -> None:
    """Print both rates and their ratio."""
    reason = BenchSimulator().unavailable_reason()
    ours = device_speed(training(epochs=200))
    print(ours, flush=True)
    if reason:
        print(f"no comparison: {reason}")
        return
    theirs = cocotb_speed(training(epochs=2))
    print(theirs)
    print(f"ratio {ours.rate / theirs.rate:.0f}")


if __name__ == "__main__":
    main()
