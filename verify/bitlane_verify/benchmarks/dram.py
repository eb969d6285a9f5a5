"""Cycles an epoch with a DRAM behind the port: `python -m bitlane_verify.benchmarks.dram`.

Each build runs the same epochs with a memory that has each beat in its cycle, and with a DRAM of the timing of a data
sheet: banks, rows, refresh, turnaround of the bus, and the two streams of a run in different rows. The model and its
order of bursts are in `bitlane_sim/rtl/cpp/dram.h`. The share is the cycles of the first over those of the second.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.driver import Driver
from bitlane.support.text import align_columns
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.dram import DDR3_PYNQ, HBM2, DramTiming

from .throughput import geometry_of, random_job

FEATURES, BATCH = 784, 16
BITS = (2, 4, 8)
BEATS = 60_000  # of an epoch at 64 bits, about


class DramBuild(NamedTuple):
    """A build, its clock in Hz, and the DRAM behind each of its ports."""

    config: AcceleratorConfig
    clock: float
    timing: DramTiming


BUILDS = (
    DramBuild(AcceleratorConfig(128), 100e6, DDR3_PYNQ),  # the bitstream in the package
    DramBuild(AcceleratorConfig(256), 300e6, HBM2),
    DramBuild(AcceleratorConfig(256, fifo_beats=64), 300e6, HBM2),
)
HEADINGS = ("port", "clock, MHz", "FIFO", "DRAM", "s", "cycles, none", "cycles", "share", "GB/s", "of its bus")


def epoch_rows(build: DramBuild, device: RtlDevice, bits: Sequence[int], beats: int) -> list[tuple[str, ...]]:
    """Return a row of the table for each number of stored bits."""
    config = build.config
    rows: list[tuple[str, ...]] = []
    for s in bits:
        geometry = geometry_of((FEATURES, s, BATCH), config.port_width // 64, beats)
        job, cycles = random_job(geometry, 2, 1), []
        for dram in (None, build.timing.ticks(build.clock, config.port_bytes)):
            device.disturb(Disturbance(dram=dram))
            before = device.counters
            cycles.append(int(Driver(device).run(job).epoch_cycles[-1]))
            moved = (device.counters.read_beats - before.read_beats) * config.port_bytes
        rate = moved * build.clock / cycles[1]
        rows.append(
            (
                f"{config.port_width} bits",
                f"{build.clock / 1e6:g}",
                str(config.fifo_beats),
                build.timing.name,
                str(s),
                f"{cycles[0]:,}",
                f"{cycles[1]:,}",
                f"{cycles[0] / cycles[1]:.4f}",
                f"{rate / 1e9:.2f}",
                f"{rate / build.timing.bytes_per_second:.0%}",
            )
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measure epochs with a DRAM behind the memory port.")
    parser.add_argument("--port", type=int, choices=(128, 256), help="only builds with a port of so many bits")
    chosen = parser.parse_args(arguments).port
    lines: list[tuple[str, ...]] = [HEADINGS]
    for build in BUILDS:
        if chosen in (None, build.config.port_width):
            with RtlDevice(build.config) as device:
                lines += epoch_rows(build, device, BITS, BEATS)
    print(align_columns(lines))


if __name__ == "__main__":
    main()
