"""Random runs of the synthesised netlist against the numpy reference, in bits and in cycles.

    python -m bitlane_verify.implementation.netlist --runs 20
    python -m bitlane_verify.implementation.netlist --build shards
    python -m bitlane_verify.implementation.netlist --board --netlist FILE.json

The third command runs the netlist of a bitstream: the harness replaces the processing system, and only bits are
compared. Runs continue until they have every loss, prox, staleness and sampling of the build, and three precisions. A
build with an encoder also makes as many random encodings. The exit status is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns
from bitlane_hw.build_digest import build_digest
from bitlane_sim.rtl.build import FABRIC_TOP, build_verilog, verilog
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence.encoder_soak import EncoderRig
from bitlane_verify.equivalence.random_jobs import random_job
from bitlane_verify.equivalence.rig import CAPACITY, DISTURBED, TIMINGS, cycle_difference, difference

from ..bitstream.design_digest import build_number, circuit_digest
from ..yosys import ADDRESS_BITS
from . import encodings
from .board import fabric
from .mapping import memory_ports, simulation, synthesise
from .modes import SAMPLING, missing_modes

BUILDS = {
    "digits": AcceleratorConfig(address_bits=ADDRESS_BITS),
    "tables": AcceleratorConfig(address_bits=ADDRESS_BITS, level_slots=512),
    "rounding": AcceleratorConfig(address_bits=ADDRESS_BITS, random_rounding=True),
    "encoder": AcceleratorConfig(address_bits=ADDRESS_BITS, encoder=4),
    "shards": AcceleratorConfig(128, address_bits=ADDRESS_BITS, shards=2, ports=2),
}
HEADINGS = ("seed", "loss", "prox", "sampling", "bits", "staleness", "features", "rows", "epochs", "stalls", "cycles")
SETTLING = 8  # cycles
MOST = 10  # times the requested runs, until the runs must have all modes


@dataclass(frozen=True)
class NetlistRun:
    """A run of the netlist.

    Attributes
    ----------
    seed : int
        Seed of the job and of the disturbance.
    job : Job
        The job.
    disturbed : bool
        Whether the buses had stalls.
    cycles : int
        Simulated cycles.
    wrong : str
        The differences from the reference, or "".
    """

    seed: int
    job: Job
    disturbed: bool
    cycles: int
    wrong: str

    @property
    def row(self) -> list[str]:
        """Cells of the table."""
        settings, geometry = self.job.state.settings, self.job.geometry
        return [
            str(self.seed),
            settings.loss.name.lower(),
            settings.prox.name.lower(),
            SAMPLING[geometry.draws],
            *map(str, (geometry.stored_bits, settings.staleness, geometry.features, geometry.rows, self.job.epochs)),
            "random" if self.disturbed else "none",
            f"{self.cycles:,}",
            self.wrong or "equal",
        ]


def open_simulator(
    library: Path,
    capacity_bytes: int = CAPACITY,
    timing: MemoryTiming | None = None,
    config: AcceleratorConfig | None = None,
) -> RtlDevice:
    """Open a device some cycles after its reset: the reset inside a board ends two cycles later.

    Without a configuration only the registers of a build with several ports are of use.
    """
    device = RtlDevice(config, capacity_bytes, timing, library=library)
    device.run(SETTLING)
    return device


def configuration(library: Path, zynq: bool) -> AcceleratorConfig:
    """Return the configuration by the registers of a simulator; the prefetch, which has no register, is the default."""
    with open_simulator(library, 1 << 16) as device:
        driver = Driver(device)
    digest = build_number(circuit_digest(driver.config)) if zynq else build_digest(driver.config)
    if driver.build != digest:
        print(f"note: the netlist is of build {driver.build:08x}; these sources make build {digest:08x}")
    return driver.config


def simulator(netlist: Path, board: bool) -> Path:
    """Build the simulator of a netlist: of the accelerator, or of a complete board."""
    if not board:
        ports = memory_ports(netlist)
        return build_verilog(simulation(netlist), axi4_ports=ports, memories=ports)
    exposed, hp_ports = fabric(netlist)
    return build_verilog(simulation(exposed, FABRIC_TOP), hp_ports=hp_ports)


def campaign(library: Path, config: AcceleratorConfig, runs: int, first: int, cycles: bool) -> list[NetlistRun]:
    """Run at least `runs` random jobs on a simulator, and more until the jobs have all modes.

    Each has a separate seed, counted from `first`. With `cycles`, undisturbed runs must have the predicted cycles.
    """
    devices = {timing: open_simulator(library, timing=timing, config=config) for timing in TIMINGS}
    reference = EmulatorDevice(config, CAPACITY)
    done: list[NetlistRun] = []
    while len(done) < runs or (missing_modes((run.job for run in done), config) and len(done) < MOST * runs):
        seed = first + len(done)
        chosen = np.random.default_rng(seed)
        timing = TIMINGS[chosen.integers(len(TIMINGS))]
        job = random_job(chosen, config)
        disturbed = bool(chosen.random() < DISTURBED)
        device = devices[timing]
        device.disturb(Disturbance.arbitrary(seed) if disturbed else Disturbance())
        before = device.counters.cycles
        got = Driver(device).run(job)
        wrong = difference(got, Driver(reference).run(job))
        if cycles and not disturbed:
            wrong += cycle_difference(got, job, timing, config.random_rounding)
        done.append(NetlistRun(seed, job, disturbed, device.counters.cycles - before, "; ".join(wrong)))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for device in devices.values():
        device.close()
    return done


def main(argv: Sequence[str] | None = None) -> int:
    """Synthesise, build and run. Return exit status 1 if anything differed or a mode is missing."""
    parser = argparse.ArgumentParser(description="Random runs of the synthesised netlist against the numpy reference.")
    parser.add_argument("--runs", type=int, default=20, help="minimum number of runs (default: 20)")
    parser.add_argument(
        "--build", choices=BUILDS, default="digits", help="lanes of the netlist that Yosys makes (default: digits)"
    )
    parser.add_argument("--netlist", type=Path, metavar="FILE", help="netlist in Yosys' JSON (default: made by Yosys)")
    parser.add_argument("--board", action="store_true", help="FILE is a complete Zynq design with its PS7")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: a fresh one)")
    arguments = parser.parse_args(argv)
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    if arguments.board and arguments.netlist is None:
        parser.error("--board needs --netlist FILE")
    started = time.monotonic()
    try:
        netlist = arguments.netlist or synthesise(verilog(BUILDS[arguments.build]))
        library = simulator(netlist, arguments.board)
    except BitlaneError as error:
        parser.error(str(error))
    built = time.monotonic()
    config = configuration(library, zynq=arguments.board)
    done = campaign(library, config, arguments.runs, first, cycles=not arguments.board)
    took = time.monotonic() - built
    print(align_columns([[*HEADINGS, "result"], *(run.row for run in done)]))
    wrong, cycles = sum(bool(run.wrong) for run in done), sum(run.cycles for run in done)
    precisions = {run.job.geometry.stored_bits for run in done}
    print(f"{len(done)} runs from seed {first}, {wrong} wrong; {len(precisions)} precisions")
    print(f"{cycles:,} cycles, {cycles / took:,.0f} per second; built in {built - started:.0f} s")
    left = missing_modes((run.job for run in done), config)
    if config.encoder:
        rig = EncoderRig(config, lambda _, capacity, timing: open_simulator(library, capacity, timing))
        encoded = encodings.run_encodings(rig, arguments.runs, first, MOST)
        rig.close()
        print(align_columns([encodings.HEADINGS, *map(encodings.row, encoded)]))
        different = sum(bool(run.wrong) for run in encoded)
        print(f"{len(encoded)} encodings from seed {first}, {different} wrong")
        wrong += different
        left += encodings.missing(encoded, config)
    for mode in left:
        print(f"no run has {mode}")
    return int(bool(wrong or left))


if __name__ == "__main__":
    sys.exit(main())
