"""Measure the coverage of random runs: declared bins, and lines, branches and toggles of the RTL.

    python -m bitlane_verify.coverage --minutes 4

The runs of a build go on until no bin is empty, at most `LONGEST` times as long.

Exit status 1 when a bin is empty, lines or branches of a build are below their goal, a run was wrong, or an exclusion
matches nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane_sim.rtl.build import build, build_verilog
from bitlane_sim.rtl.zynq_device import build_ports
from bitlane_verify.equivalence.rig import CAPACITY, EquivalenceRig

from . import encoder, functional, random_rounding, zynq_ports
from .code_coverage import KINDS, CodeCoverage, Counts, code_points, read_counts, read_exclusions
from .covergroup import Covergroup
from .stimulus import Stimulus
from .verilog_source import VerilogSource, verilog
from .watched_device import WatchedDevice

GOALS = {"line": 0.98, "branch": 0.98}
TIMINGS = (MemoryTiming(1), MemoryTiming(60, 40))
PROCESSES = 2
WIDE_RUNS = 150
LONGEST = 4  # times the minutes asked for, until every bin is hit
ROUND_RUNS = 20  # runs between two looks at the bins


def small(width: int, outputs: int = 1, level_slots: int = 0, shards: int = 1, ports: int = 1) -> AcceleratorConfig:
    """Return a build with random rounding whose largest model a random run soon meets."""
    return AcceleratorConfig(
        width,
        outputs,
        max_features=512,
        row_buffer_beats=512,
        level_slots=level_slots,
        random_rounding=True,
        shards=shards,
        ports=ports,
    )


# All coverpoints, and every line, branch and toggle. Without random rounding a build has the same blocks but two.
DIGIT_LANES = small(64)
TABLE_LANES = small(64, level_slots=128)
MEASURED = {"64 bits, digit lanes": DIGIT_LANES, "64 bits, table lanes": TABLE_LANES}
ENCODER = "64 bits, encoder"  # encodings; of the code only the instance `encoder`
# Only the coverpoints of several rows a beat.
WIDE = {
    "128 bits, 2 outputs, digit lanes": small(128, 2),
    "256 bits, digit lanes": small(256),
    "512 bits, table lanes": small(512, level_slots=128),
}
WIDE_POINTS = (*functional.BEAT_POINTS, *random_rounding.ROW_POINTS)
# All coverpoints, with aborts, resets and errors, but no code.
SHARDED = {"128 bits, 2 shards, 2 ports": small(128, shards=2, ports=2)}


@dataclass
class Measurement:
    """The coverage of a build's runs.

    Attributes
    ----------
    group : Covergroup
        Its coverpoints.
    counts : Counter
        Verilator's counts; empty without code coverage.
    runs : int
        Number of runs.
    failures : list of str
        What was wrong.
    """

    group: Covergroup
    counts: Counts = field(default_factory=Counts)
    runs: int = 0
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Build the simulators, run them, print the report."""
    parser = argparse.ArgumentParser(description="Measure functional and code coverage of the RTL in random runs.")
    parser.add_argument(
        "--minutes", type=float, default=4.0, help="shortest time for the runs of each measured build (default 4)"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: a fresh one)")
    arguments = parser.parse_args()
    seed: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    sources = verilog_sources()
    results = measure_builds(sources, seed, arguments.minutes)

    good = []
    for name, result in results.items():
        good += [report_bins(result.group, f"{name}: {result.runs} runs from seed {seed}"), not result.failures]
        for failure in result.failures:
            print(f"  wrong: {failure}")
    points = [
        point
        for name, source in sources.items()
        for point in code_points(
            name, results[name].counts, VerilogSource(source.read_text()), "encoder" if name == ENCODER else ""
        )
    ]
    good.append(report_code(CodeCoverage(points, read_exclusions())))
    return int(not all(good))


def verilog_sources() -> dict[str, Path]:
    """Return the Verilog of each build whose code is measured."""
    sources = {name: verilog(config) for name, config in MEASURED.items()}
    return sources | {ENCODER: verilog(encoder.CONFIG)}


def measure_builds(sources: Mapping[str, Path], seed: int, minutes: float) -> dict[str, Measurement]:
    """Return the coverage of every build; `sources` as of `verilog_sources`."""
    libraries = {name: build_verilog(source, coverage=True) for name, source in sources.items()}
    libraries |= {name: build(config) for name, config in (WIDE | SHARDED).items()}
    libraries |= {name: build_ports(config) for name, config in zynq_ports.CONFIGS.items()}
    with ProcessPoolExecutor(PROCESSES) as pool:
        measured = {
            name: pool.submit(measure, config, libraries[name], seed, minutes, name in MEASURED)
            for name, config in (MEASURED | SHARDED).items()
        }
        wide = {name: pool.submit(measure_wide, config, libraries[name], seed) for name, config in WIDE.items()}
        behind = {
            name: pool.submit(measure_zynq, config, libraries[name], seed, minutes)
            for name, config in zynq_ports.CONFIGS.items()
        }
        encodings = {ENCODER: pool.submit(measure_encoder, libraries[ENCODER], seed, minutes)}
        return {name: future.result() for name, future in (measured | encodings | wide | behind).items()}


def measure(config: AcceleratorConfig, library: Path, seed: int, minutes: float, of_code: bool = True) -> Measurement:
    """Do runs of all kinds for some minutes, and more while a bin is empty. Code is measured only with `of_code`."""
    stimulus, result = _stimulus(config, library)
    begin, seconds = time.monotonic(), 60 * minutes
    while (passed := time.monotonic() - begin) < seconds or (passed < LONGEST * seconds and result.group.missed()):
        for _ in range(ROUND_RUNS):
            stimulus.run(seed + result.runs)
            result.runs += 1
        for device in stimulus.devices():
            functional.sample_buses(result.group, device.monitor, config)
    for device in stimulus.devices() if of_code else ():
        result.counts.update(_counts(device))
    stimulus.close()
    return result


def measure_encoder(library: Path, seed: int, minutes: float) -> Measurement:
    """Do encodings of all kinds for some minutes, and more while a bin is empty."""
    group = encoder.declare(encoder.CONFIG)
    rig = encoder.open_rig(encoder.CONFIG, library)
    stimulus = encoder.EncoderStimulus(rig, group)
    result = Measurement(group, failures=stimulus.failures)
    begin, seconds = time.monotonic(), 60 * minutes
    while (passed := time.monotonic() - begin) < seconds or (passed < LONGEST * seconds and group.missed()):
        for _ in range(ROUND_RUNS):
            stimulus.run(seed + result.runs)
            result.runs += 1
        stimulus.sample_buses()
    for device in stimulus.devices():
        result.counts.update(_counts(device))
    rig.close()
    return result


def measure_zynq(config: AcceleratorConfig, library: Path, seed: int, minutes: float) -> Measurement:
    """Do runs behind the memory ports of a chip until no bin is empty, for some minutes at most."""
    group = zynq_ports.declare(config)
    rig = zynq_ports.open_rig(config, library)
    stimulus = zynq_ports.ZynqStimulus(rig, group)
    result = Measurement(group, failures=stimulus.failures)
    begin = time.monotonic()
    while time.monotonic() - begin < LONGEST * 60 * minutes and (not result.runs or group.missed()):
        for _ in range(ROUND_RUNS):
            stimulus.run(seed + result.runs)
            result.runs += 1
        stimulus.sample_buses()
    rig.close()
    return result


def measure_wide(config: AcceleratorConfig, library: Path, seed: int) -> Measurement:
    """Do WIDE_RUNS undisturbed runs."""
    stimulus, result = _stimulus(config, library)
    for result.runs in range(1, WIDE_RUNS + 1):
        stimulus.run_undisturbed(seed + result.runs)
    stimulus.close()
    result.group = result.group.only(*WIDE_POINTS)
    return result


def _stimulus(config: AcceleratorConfig, library: Path) -> tuple[Stimulus, Measurement]:
    def device(config: AcceleratorConfig, capacity: int, timing: MemoryTiming) -> WatchedDevice:
        return WatchedDevice(config, capacity, timing, library=library)

    group = functional.declare(config)
    stimulus = Stimulus(EquivalenceRig([config], CAPACITY, TIMINGS, device), config, group)
    return stimulus, Measurement(group, failures=stimulus.failures)


def _counts(device: WatchedDevice) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.dat"
        device.write_coverage(path)
        return read_counts(path)


def report_bins(group: Covergroup, title: str) -> bool:
    """Print how many bins of each coverpoint were hit, and the empty ones; return whether there are none of these."""
    table, missed = group.table(), group.missed()
    print(f"\n{title}\n{sum(hit for _, hit, _ in table)} of {sum(bins for *_, bins in table)} bins")
    for coverpoint, hit, bins in table:
        print(f"  {coverpoint:42} {hit:4} of {bins:4}")
    for name in missed:
        print(f"  empty: {name}")
    return not missed


def report_code(coverage: CodeCoverage) -> bool:
    """Print the figures of each file and the missed points; return whether each build reaches the goals."""
    figures = coverage.figures()
    print(f"\n{'file':20}" + "".join(f"{kind:>24}" for kind in KINDS))
    for file in sorted({file for file, _ in figures}, key=lambda file: (file == "all", file)):
        row = [figures.get((file, kind)) for kind in KINDS]
        print(f"{file:20}" + "".join(f"{f'{v[0]} of {v[1]} {v[0] / v[1]:7.2%}' if v else '':>24}" for v in row))
    print(f"  points of {' and '.join(coverage.builds())}, side by side")
    print("  toggle: each bit of signals of up to 64 bits, in each direction")
    for kind in GOALS:
        for name, count in sorted(coverage.missed(kind).items()):
            print(f"  missed {kind}: {name}" + (f" ({count} times)" if count > 1 else ""))
    for rule, count in coverage.excluded.items():
        print(f"  excluded: {rule}, {count} points")
    unused = coverage.unused_exclusions()
    for rule in unused:
        print(f"  exclusion that matches nothing: {rule}")
    reached = [coverage.fraction(name, kind) >= goal for name in coverage.builds() for kind, goal in GOALS.items()]
    return not unused and all(reached)


if __name__ == "__main__":
    sys.exit(main())
