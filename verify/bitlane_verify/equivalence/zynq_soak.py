"""Random runs of the accelerator behind the memory ports of a Zynq-7000 and of a Zynq UltraScale+, simulated.

    python -m bitlane_verify.equivalence.zynq_soak --runs 100

Random runs at 64 bits (one AXI3 port), 128 bits (two) and 256 bits (two AXI4 ports) against the numpy reference, as in
`soak`; a quarter of them after a reset in the run before, which the ports outlive. Then the cycles of some runs on two
ports, and those predicted for one port of the same width.
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
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.zynq_device import zynq_device

from .interrupted import Interrupted
from .random_jobs import Random, random_job
from .rig import CAPACITY, DISTURBED, difference

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig
    from bitlane_sim.rtl.device import RtlDevice

READ_DELAY = {64: 2, 128: 5, 256: 5}  # cycles that the adapters add to the latency of reads, by width
RESET = 0.25  # share of the runs that follow a reset in a run, with ports that outlive it
SHAPES = ((717, 4), (717, 8), (100, 4), (100, 16), (30, 2))  # features and bits of the timed runs


class ZynqRig:
    """The fabric of a configuration, and its reference. `device` is the fabric; one is built by default."""

    def __init__(self, config: AcceleratorConfig, timing: MemoryTiming | None = None, device: RtlDevice | None = None):
        self.config = config
        self.timing = timing or MemoryTiming()
        self.rtl = device or zynq_device(config, timing=self.timing)
        self.reference = EmulatorDevice(config, CAPACITY)

    def run(self, job: Job, disturbance: Disturbance = Disturbance()) -> tuple[JobResult, list[str]]:  # noqa: B008
        """Run a job on both. Return the result of the RTL, and the differences from the reference."""
        self.rtl.disturb(disturbance)
        got = Driver(self.rtl).run(job)
        return got, difference(got, Driver(self.reference).run(job))

    def run_after_reset(self, chosen: Random, earlier: Job, job: Job, disturbance: Disturbance) -> list[str]:
        """Reset the logic in a random cycle of a run, while the ports go on, and run another job at once.

        The next run gets other memory, because words that a port has taken before the reset still come. On a board a
        reset takes longer than that.

        Parameters
        ----------
        chosen : numpy Generator
            Chooses the cycle: within twice the predicted length, because of the stalls.
        earlier, job : Job
            The run that is cut short, and the next one.
        disturbance : Disturbance
            Of both.

        Returns
        -------
        list of str
            The differences of the second run from the reference, or an error that is not the reset's.
        """
        self.rtl.disturb(replace(disturbance, outlives_reset=True))
        cycles = predict(earlier.geometry, earlier.epochs, earlier.snapshots, earlier.state.settings.staleness).cycles
        try:
            Driver(Interrupted(self.rtl, int(chosen.integers(2 * cycles)), "reset")).run(earlier)
        except DeviceError as error:  # the driver finds no run any more
            if error.code:
                return [f"the run with the reset: {error}"]
        room = self.rtl.allocate(CAPACITY)  # the memory of the first run, and more
        wrong = self.run(job, replace(disturbance, outlives_reset=True))[1]
        room.free()
        return wrong

    def close(self) -> None:
        """Free the simulator."""
        self.rtl.close()


def timed_job(features: int, bits: int, config: AcceleratorConfig, epochs: int = 2, rows: int = 512) -> Job:
    """Return a job of double sampling in batches of 64. Its samples are random: cycles do not depend on them."""
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
    """Return for each of `SHAPES` the cycles on two ports, those predicted for one port, and their ratio."""
    rows = [["features", "bits", "cycles, two ports", "predicted, one port", "ratio"]]
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
    """Run random jobs and print the table. Return exit status 1 if anything differed."""
    from bitlane.contract.config import AcceleratorConfig

    parser = argparse.ArgumentParser(
        description="Random runs behind the memory ports of a chip, and their cycles on two ports."
    )
    parser.add_argument("--runs", type=int, default=100, help="runs of each width (default: 100)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: a fresh one)")
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
            if chosen.random() < RESET:
                wrong = pair.run_after_reset(chosen, random_job(chosen, pair.config), job, disturbance)
            else:
                wrong = pair.run(job, disturbance)[1]
            if wrong:
                failures += 1
                print(f"{width} bits, seed {seed}: {'; '.join(wrong)}", flush=True)
        print(f"{width} bits: {arguments.runs} runs from seed {first}, {failures} wrong so far", flush=True)
        if width > 64:
            print(align_columns(cycles_table(pair)))
        pair.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
