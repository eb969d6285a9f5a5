"""The accelerator on a Zynq-7000, simulated: the RTL behind the processing system's AXI3 ports.

    python -m bitlane_sim.equivalence.zynq_soak --runs 100

Random runs of 64 bits (one HP port) and 128 bits (two), RTL against numpy reference, like those of the
soak; then the cycles of some runs of 128 bits on two HP ports, beside those predicted for one port of 128 bits.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult
from bitlane.errors import DeviceError
from bitlane.support.text import align_columns
from bitlane_sim.rtl.harness import Disturbance
from bitlane_sim.rtl.zynq_device import zynq_device

from .random_jobs import random_job
from .rig import CAPACITY, DISTURBED, difference

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

READ_DELAY = {64: 2, 128: 5}  # cycles that the adapters add to the latency of reads, by width
SHAPES = ((717, 4), (717, 8), (100, 4), (100, 16), (30, 2))  # features, bits, of the runs that are timed


class ZynqRig:
    """A fabric and the reference with its configuration."""

    def __init__(self, config: AcceleratorConfig, timing: MemoryTiming | None = None):
        self.config = config
        self.timing = timing or MemoryTiming()
        self.rtl = zynq_device(config, timing=self.timing)
        self.reference = EmulatorDevice(config, CAPACITY)

    def run(self, job: Job, disturbance: Disturbance = Disturbance()) -> tuple[JobResult, list[str]]:  # noqa: B008
        """The RTL's outcome, and which bits of it differ from the reference's."""
        self.rtl.disturb(disturbance)
        got = Driver(self.rtl).run(job)
        return got, difference(got, Driver(self.reference).run(job))

    def close(self) -> None:
        """Free the simulator."""
        self.rtl.close()


def timed_job(features: int, bits: int, config: AcceleratorConfig, epochs: int = 2, rows: int = 512) -> Job:
    """A run of double sampling with batches of 64, its samples at random: cycles do not depend on them."""
    chosen = np.random.default_rng(features)
    geometry = Geometry(
        features,
        rows,
        base_digits=bits // 2 - 1,
        draws=True,
        batch=64,
        rows_per_beat=config.rows_per_beat,
        outputs=config.outputs,
    )
    shape = rows, features
    codes = chosen.integers(0, 4**geometry.base_digits, shape).astype(np.uint32)
    labels = chosen.integers(-1000, 1000, (rows, config.outputs)).astype(np.int16)
    return Job(
        geometry,
        base_regions=[pack_base(codes, labels, geometry)],
        draw_regions=[pack_draws(chosen.integers(0, 4, shape).astype(np.uint8), geometry)],
        state=ModelState(np.zeros((config.outputs, features), np.int32), Settings(1 << 15, 1 << 15)),
        epochs=epochs,
    )


def cycles_table(pair: ZynqRig) -> list[list[str]]:
    """For each of SHAPES: cycles on the HP ports, those predicted for one port as wide, and their ratio."""
    rows = [["features", "bits", "cycles, HP ports", "predicted, one port", "ratio"]]
    for features, bits in SHAPES:
        job = timed_job(features, bits, pair.config)
        got, wrong = pair.run(job)
        if wrong:
            raise DeviceError(f"{features} features, {bits} bits: {'; '.join(wrong)}")
        expected = predict(job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, pair.timing).cycles
        ratio = f"{got.counters.cycles / expected:.4f}"
        rows.append([f"{features}", f"{bits}", f"{got.counters.cycles:,}", f"{expected:,}", ratio])
    return rows


def main() -> int:
    """Random runs, then the table; exit status 1 where anything differed."""
    from bitlane.contract.config import AcceleratorConfig

    parser = argparse.ArgumentParser(description="Random runs behind a Zynq's ports, and cycles on two of them.")
    parser.add_argument("--runs", type=int, default=100, help="of each width (default 100)")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; fresh when not given")
    arguments = parser.parse_args()
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    failures = 0
    small = AcceleratorConfig(max_features=1024, row_buffer_beats=1024, address_bits=32)
    for width in READ_DELAY:
        pair = ZynqRig(replace(small, width=width))
        for seed in range(first, first + arguments.runs):
            chosen = np.random.default_rng(seed)
            job = random_job(chosen, pair.config)
            disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
            if wrong := pair.run(job, disturbance)[1]:
                failures += 1
                print(f"{width} bits, seed {seed}: {'; '.join(wrong)}", flush=True)
        print(f"{width} bits: {arguments.runs} runs from seed {first}, {failures} wrong so far", flush=True)
        if width == 2 * 64:
            print(align_columns(cycles_table(pair)))
        pair.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
