"""Cycles of two epochs with a DRAM behind each port: `python -m bitlane_verify.benchmarks.dram`.

Each build runs the same epochs with a memory that has each beat in its cycle, and with memories that do not:

- a DRAM of the timing of a data sheet: banks, rows, refresh, turnaround of the bus, and the two streams of a run in
  different rows. The model and its order of bursts are in `bitlane_sim/rtl/cpp/dram.h`. The DRAMs of several ports
  refresh evenly apart, which is the worst case for beats that need all ports.
- the same with reads that also stall at random, in 10 % of the cycles, each port alone.
- no DRAM, but stalls of 60 cycles on average in 20 % of the cycles, each port alone.

The share is the cycles of the first over those of the others. *Of one port* is the share over that of a build with one
such port and the same FIFO.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.support.text import align_columns
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.dram import DDR3_PYNQ, HBM2, DramTiming
from bitlane_verify.equivalence.random_jobs import SMALL

from .throughput import geometry_of, random_job

FEATURES, BATCH = 784, 64
BITS = (2, 4, 8)
BEATS = 60_000  # of an epoch, about


class DramBuild(NamedTuple):
    """A build, its clock in Hz, and the DRAM behind each of its ports."""

    config: AcceleratorConfig
    clock: float
    timing: DramTiming


def hbm(ports: int, shards: int, fifo_beats: int) -> DramBuild:
    """Return a build with ports of 256 bits, a pseudo channel of HBM2 behind each."""
    config = AcceleratorConfig(256 * ports, fifo_beats=fifo_beats, shards=shards, ports=ports)
    return DramBuild(config, 300e6, HBM2)


def narrow(ports: int, shards: int, fifo_beats: int) -> DramBuild:
    """Return a build with ports of 64 bits, a quarter of a pseudo channel behind each.

    A beat, a burst and a row take as many cycles as at 256 bits, and the simulator is built in minutes.
    """
    config = dataclasses.replace(SMALL, width=64 * ports, fifo_beats=fifo_beats, shards=shards, ports=ports)
    quarter = dataclasses.replace(
        HBM2,
        name="quarter of such a channel",
        bytes_per_second=HBM2.bytes_per_second / 4,
        row_bytes=HBM2.row_bytes // 4,
    )
    return DramBuild(config, 300e6, quarter)


BUILDS = (
    DramBuild(AcceleratorConfig(128), 100e6, DDR3_PYNQ),  # the bitstream in the package
    *(narrow(1, 1, fifo_beats) for fifo_beats in (64, 256, 1024)),
    *(narrow(2, 2, fifo_beats) for fifo_beats in (64, 256, 1024)),
    *(narrow(4, 2, fifo_beats) for fifo_beats in (256, 1024)),
    *(hbm(1, 1, fifo_beats) for fifo_beats in (64, 256, 1024)),
    *(hbm(2, 1, fifo_beats) for fifo_beats in (64, 256)),
    *(hbm(2, 2, fifo_beats) for fifo_beats in (256, 1024)),
    *(hbm(4, 2, fifo_beats) for fifo_beats in (256, 1024)),
)


def memories(build: DramBuild) -> dict[str, Disturbance]:
    """Return the memories behind the ports of a build, with their names."""
    dram = build.timing.ticks(build.clock, build.config.port_bytes)
    return {
        build.timing.name: Disturbance(dram=dram),
        "the same, 10 % stalls": Disturbance(seed=1, dram=dram, stall_r=0.1),
        "20 % stalls of 60 cycles": Disturbance(seed=1, stall_r=0.2, stall_r_cycles=60),
    }


class DramEpochs(NamedTuple):
    """Cycles of two epochs without a DRAM and with a memory, and the bytes a second of all ports with it."""

    build: DramBuild
    memory_name: str
    bits: int
    free: int
    cycles: int
    rate: float

    @property
    def share(self) -> float:
        return self.free / self.cycles


def measure(build: DramBuild, device: RtlDevice, bits: Sequence[int], beats: int = BEATS) -> Iterator[DramEpochs]:
    """Measure epochs of a build for each number of stored bits, with each of its memories."""
    config = build.config
    for s in bits:
        shape = min(FEATURES, config.max_features // 2), s, BATCH  # staleness 1 keeps two models
        geometry = geometry_of(shape, config.rows_per_beat, beats * config.words_per_beat)
        geometry = dataclasses.replace(geometry, shards=config.shards, ports=config.ports)
        job = random_job(geometry, 2, 1)
        free, _ = _run(device, job, Disturbance())
        for name, disturbance in memories(build).items():
            cycles, moved = _run(device, job, disturbance)
            yield DramEpochs(build, name, s, free, cycles, moved * config.port_bytes * build.clock / cycles)


def _run(device: RtlDevice, job: Job, disturbance: Disturbance) -> tuple[int, int]:
    """Return the cycles of both epochs of a run, and the beats that all ports read."""
    device.disturb(disturbance)
    before = device.counters.read_beats
    ends = Driver(device).run(job).epoch_cycles
    return int(ends[-1]), device.counters.read_beats - before


HEADINGS = (
    *("ports", "shards", "clock, MHz", "FIFO", "memory", "s"),
    *("cycles, none", "cycles", "share", "of one port", "GB/s a port", "of its bus"),
)


def row(epochs: DramEpochs, one_port: float | None) -> tuple[str, ...]:
    """Return a row of the table.

    Parameters
    ----------
    epochs : DramEpochs
    one_port : float or None
        The share of a build with one such port, if it was measured.
    """
    config, timing = epochs.build.config, epochs.build.timing
    rate = epochs.rate / config.ports
    return (
        f"{config.ports} x {config.port_width} bits",
        str(config.shards),
        f"{epochs.build.clock / 1e6:g}",
        str(config.fifo_beats),
        epochs.memory_name,
        str(epochs.bits),
        f"{epochs.free:,}",
        f"{epochs.cycles:,}",
        f"{epochs.share:.4f}",
        f"{epochs.share / one_port:.4f}" if one_port else "",
        f"{rate / 1e9:.2f}",
        f"{rate / timing.bytes_per_second:.0%}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and each row to the error stream as soon as it is measured."""
    parser = argparse.ArgumentParser(description="Measure epochs with a DRAM behind each memory port.")
    parser.add_argument("--port", type=int, choices=(64, 128, 256), help="only builds with ports of so many bits")
    parser.add_argument("--most-ports", type=int, default=4, help="no builds with more ports (default: 4)")
    parser.add_argument("--fifo", type=int, help="only builds with a FIFO of so many beats")
    parser.add_argument("--bits", type=int, nargs="+", default=BITS, help="stored bits of a feature (default: 2 4 8)")
    chosen = parser.parse_args(arguments)
    one_port: dict[tuple[int, int, str, int], float] = {}
    lines: list[tuple[str, ...]] = [HEADINGS]
    for build in BUILDS:
        config = build.config
        if chosen.port not in (None, config.port_width) or chosen.fifo not in (None, config.fifo_beats):
            continue
        if config.ports > chosen.most_ports:
            continue
        with RtlDevice(config) as device:
            for each in measure(build, device, chosen.bits):
                key = config.port_width, config.fifo_beats, each.memory_name, each.bits
                if config.ports == 1:
                    one_port[key] = each.share
                lines.append(row(each, one_port.get(key) if config.ports > 1 else None))
                print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    print(align_columns(lines))


if __name__ == "__main__":
    main()
