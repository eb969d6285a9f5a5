"""Runs that fill the bins, until all are filled and nothing new of the RTL is reached, and the report.

    python -m bitlane_sim.coverage --minutes 6

Exit status 1 where a bin is empty, lines or branches are below their goal, a run was wrong, or an exclusion is of no
use.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane_sim.equivalence.random_jobs import SMALL
from bitlane_sim.equivalence.rig import CAPACITY, EquivalenceRig
from bitlane_sim.rtl.build import build, build_verilog

from .bins import Bins
from .device import WatchedDevice
from .functional import GROUP_POINTS, declared, observe_bus
from .points import KINDS, Key, Report, exclusions, points, read_counts
from .runs import CoverageRuns
from .source import Lines, verilog

MEASURED = SMALL
WIDE = AcceleratorConfig(128, 2, max_features=512, row_buffer_beats=512)  # groups of two rows
GOALS = {"line": 0.98, "branch": 0.98}
TIMINGS = (MemoryTiming(1), MemoryTiming(60, 40))
WIDE_RUNS = 60


def main() -> int:
    """Build, run, report."""
    parser = argparse.ArgumentParser(description="Functional coverage and coverage of the RTL, in random runs.")
    parser.add_argument("--minutes", type=float, default=6.0, help="of runs, without building (default 6)")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; fresh when not given")
    arguments = parser.parse_args()
    seed: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    source = verilog(MEASURED)
    bins, counts, wrong = _measured(build_verilog(source, coverage=True), seed, arguments.minutes)
    wide_bins, wide_wrong = _wide(seed)
    for line in (*wrong, *wide_wrong):
        print(f"wrong: {line}")
    good = [
        not wrong and not wide_wrong,
        report_bins(bins, f"{MEASURED.width} bits"),
        report_bins(wide_bins.only(*GROUP_POINTS), f"{WIDE.width} bits"),
        report_points(Report(points(counts, Lines(source.read_text())), exclusions())),
    ]
    return int(not all(good))


def _measured(library: Path, seed: int, minutes: float) -> tuple[Bins, Counter[Key], list[str]]:
    """All kinds of runs, for so many minutes: bins, what Verilator counted, and what was wrong."""
    bins = declared(MEASURED)
    runs = CoverageRuns(_bench(MEASURED, library), MEASURED, bins)
    end = time.monotonic() + 60 * minutes
    number = 0
    while time.monotonic() < end:
        runs.one(seed + number)
        number += 1
        if sys.stderr.isatty():
            print(f"\r{number} runs", end="", file=sys.stderr)
    counts: Counter[Key] = Counter()
    for device in runs.devices():
        observe_bus(bins, device.monitor, MEASURED)
        counts.update(_counts(device))
    runs.close()
    print(f"{number} runs from seed {seed}")
    return bins, counts, runs.wrong


def _wide(seed: int) -> tuple[Bins, list[str]]:
    """Some runs with groups of several rows: bins, and what was wrong."""
    bins = declared(WIDE)
    runs = CoverageRuns(_bench(WIDE, build(WIDE)), WIDE, bins)
    for number in range(WIDE_RUNS):
        runs.one_well(seed + number)
    runs.close()
    return bins, runs.wrong


def _bench(config: AcceleratorConfig, library: Path) -> EquivalenceRig:
    def device(config: AcceleratorConfig, capacity: int, timing: MemoryTiming) -> WatchedDevice:
        return WatchedDevice(config, capacity, timing, library=library)

    return EquivalenceRig([config], CAPACITY, TIMINGS, device)


def _counts(device: WatchedDevice) -> Counter[Key]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.dat"
        device.write_coverage(path)
        return read_counts(path)


def report_bins(bins: Bins, title: str) -> bool:
    """Print how many bins of each point were hit, and those that were not; whether all were."""
    table, missed = bins.table(), bins.missed()
    print(f"\n{title}: {sum(hit for _, hit, _ in table)} of {sum(of for _, _, of in table)} declared bins")
    for point, hit, of in table:
        print(f"  {point:40} {hit:4} of {of:4}")
    for name in missed:
        print(f"  empty: {name}")
    return not missed


def report_points(report: Report) -> bool:
    """Print the RTL's figures, file by file, and what was missed; whether the goals are met."""
    figures = report.figures()
    print(f"\n{'file':20}" + "".join(f"{kind:>24}" for kind in KINDS))
    for file in sorted({file for file, _ in figures}, key=lambda file: (file == "all", file)):
        row = [figures.get((file, kind)) for kind in KINDS]
        print(f"{file:20}" + "".join(f"{f'{v[0]} of {v[1]} {v[0] / v[1]:7.2%}' if v else '':>24}" for v in row))
    print("  toggle: of signals of up to 64 bits, each bit each way")
    for kind in GOALS:
        for name, count in sorted(report.missed(kind).items()):
            print(f"  never, {kind}: {name}" + (f" ({count} times)" if count > 1 else ""))
    for rule, count in report.used.items():
        print(f"  excluded: {rule}, {count} points")
    return not report.unused() and all(report.share(kind) >= goal for kind, goal in GOALS.items())


if __name__ == "__main__":
    sys.exit(main())
