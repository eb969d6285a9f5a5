"""Train random jobs on two cores that share memories, in Verilator, and compare with the numpy reference."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitlane.contract.modes import ErrorCode
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult, job_bytes
from bitlane_sim.cocotb.runner import BenchSimulator, run_bench
from bitlane_verify.equivalence.random_jobs import Random, random_job
from bitlane_verify.equivalence.rig import difference

from .crossbar import TOP, generate
from .layout import BUILD, CORE_BYTES, CORES, FOLDER, RESULTS, ROUNDS, Round

VERILOG = "system.v"
LOST = ErrorCode.READ_DECODE.name  # in the error of a core without memory
LEAST_BEATS = 1000  # of a job: both cores are busy for a while


@dataclass(frozen=True)
class SharedRun:
    """Jobs that two cores ran at the same time.

    Attributes
    ----------
    rounds : list of Round
        The jobs.
    results : list of list of JobResult or str
        Of each round, for each core: what it has trained, or the driver's error.
    waiting, receiving : int
        Cycles in which addresses of both cores waited, and in which both cores received data.
    """

    rounds: list[Round]
    results: list[list[JobResult | str]]
    waiting: int
    receiving: int

    def differences(self) -> list[str]:
        """Return in words where the bits of a core are not those of the numpy reference, and where errors are wrong."""
        reference = Driver(EmulatorDevice(BUILD))
        found = []
        for number, (planned, results) in enumerate(zip(self.rounds, self.results, strict=True)):
            for core, (job, result) in enumerate(zip(planned.jobs, results, strict=True)):
                if core == planned.lost:
                    wrong = [] if LOST in str(result) else [f"{LOST} is missing: {result}"]
                else:
                    wrong = [result] if isinstance(result, str) else difference(result, reference.run(job))
                found += [f"round {number}, core {core}: {each}" for each in wrong]
        return found


def random_rounds(seed: int, count: int = 6) -> list[Round]:
    """Return rounds of random jobs that fit a core's part of the memories and keep it busy for a while.

    In the last round one core, chosen at random, has no memory.
    """
    chosen = np.random.default_rng(seed)
    rounds = [Round([_busy_job(chosen) for _ in range(CORES)]) for _ in range(count)]
    return [*rounds[:-1], replace(rounds[-1], lost=int(chosen.integers(CORES)))]


def _busy_job(chosen: Random) -> Job:
    while True:
        job = random_job(chosen, BUILD, features=BUILD.max_features, rows=64)
        regions = len(job.base_regions), len(job.draw_regions)
        fits = job_bytes(job.geometry, job.epochs, *regions, job.snapshots) <= CORE_BYTES
        if fits and job.epochs * job.geometry.beats >= LEAST_BEATS:
            return job


def train_on_shared_memories(folder: Path, seed: int, rounds: list[Round]) -> SharedRun:
    """Run rounds of jobs, one after the other, on both cores.

    Parameters
    ----------
    folder : Path
        An existing folder for all files.
    seed : int
        Of everything in the simulator that has no initial value, the content of the memories included.
    rounds : list of Round

    Raises
    ------
    AssertionError
        The testbench failed; the message has the end of its log.
    DataError
        A file of verilog-axi cannot be downloaded, or is not the expected one.
    DeviceError
        A tool is missing.
    """
    generate(folder / VERILOG)
    (folder / ROUNDS).write_bytes(pickle.dumps(rounds))
    run_bench(
        folder / VERILOG,
        TOP,
        f"{__package__}.testbench",
        folder,
        seed,
        {FOLDER: str(folder)},
        BenchSimulator(ports_only=True),
    )
    results, meetings = pickle.loads((folder / RESULTS).read_bytes())
    return SharedRun(rounds, results, **meetings)
