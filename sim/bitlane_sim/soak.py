"""Random runs for as long as wanted, the RTL against the numpy reference, both through the driver.

    python -m bitlane_sim.soak --minutes 10

Every weight bit, loss word, state register and counter must be equal; without stalls the cycles too.
Every run has a seed of its own; `--seed N --runs 1` repeats one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import numpy as np

from bitlane.accelerator import Accelerator, Job, Outcome
from bitlane.contract import MASTER, MAX_DIGITS
from bitlane.cycles import MemoryTiming, predict
from bitlane.devices.emulator import EmulatorDevice
from bitlane.fixed import NO_DECAY
from bitlane.layout import Geometry, Words, pack_base, pack_draws
from bitlane_hw.config import AcceleratorConfig

from .device import RtlDevice
from .harness import Disturbance

Random = np.random.Generator

SMALL = AcceleratorConfig(max_features=512, row_buffer_words=512)
CAPACITY = 16 << 20
TIMINGS = tuple(MemoryTiming(latency) for latency in (1, 7, 30, 60, 100))  # what the prefetch buffers cover
DISTURBED = 0.5  # of the runs have stalls on the buses


def random_job(chosen: Random, features: int = 300, rows: int = 80, epochs: int = 4) -> Job:
    """Any run that the hardware takes, of at most this size; small sizes, partial batches and saturation included."""
    draws = bool(chosen.random() < 0.6)
    geometry = Geometry(
        features=_size(chosen, features, (1, 31, 32, 33, 64, 65)),
        rows=_size(chosen, rows, (1, 2, 3, 4, 5, 8)),
        base_digits=_size(chosen, MAX_DIGITS, (1, 2, 3, 4)) - draws,
        draws=draws,
    )
    shape = (geometry.rows, geometry.features)
    largest_label = 1 << int(chosen.integers(16))

    def base() -> Words:
        codes = chosen.integers(0, 4**geometry.base_digits, shape).astype(np.uint32)
        labels = chosen.integers(-largest_label, largest_label, geometry.rows).astype(np.int16)
        return pack_base(codes, labels, geometry)

    sets = int(chosen.integers(1, 3, endpoint=True))
    reach = int(chosen.choice([0, 24, 31]))  # weights at zero, small, or anywhere
    return Job(
        geometry,
        base=[base() for _ in range(1 if draws else sets)],
        draws=[
            pack_draws(chosen.integers(0, 4, shape).astype(np.uint8), geometry) for _ in range(sets if draws else 0)
        ],
        master=chosen.integers(-(1 << reach), 1 << reach, geometry.features)
        .clip(MASTER.minimum, MASTER.maximum)
        .astype(np.int32),
        epochs=int(chosen.integers(1, epochs, endpoint=True)),
        batch=_size(chosen, 2 * rows, (1, 2, geometry.rows)),
        step=_mantissa_exponent(chosen),
        rate=_mantissa_exponent(chosen) if chosen.random() < 0.5 else 0,
        decay=int(chosen.choice([NO_DECAY, int(chosen.integers(NO_DECAY // 2, NO_DECAY))])),
        shrink=int(chosen.integers(2)),
        phase=int(chosen.integers(1 << 32)),
        snapshots=bool(chosen.integers(2)),
    )


def _size(chosen: Random, largest: int, special: tuple[int, ...]) -> int:
    if chosen.random() < 0.5:
        return min(largest, int(chosen.choice(special)))
    return int(chosen.integers(1, largest, endpoint=True))


def _mantissa_exponent(chosen: Random) -> int:
    return int(chosen.integers(1 << 15, 1 << 16)) | int(chosen.integers(0, 24)) << 16


class Bench:
    """The RTL with memories of several timings, the reference, and a comparison of both."""

    def __init__(
        self,
        config: AcceleratorConfig = SMALL,
        capacity_bytes: int = CAPACITY,
        timings: Sequence[MemoryTiming] = TIMINGS,
    ):
        self.rtl = {timing: RtlDevice(config, capacity_bytes, timing) for timing in timings}
        self.emulator = EmulatorDevice(config.max_features, config.max_row_words, capacity_bytes)

    def run(self, seed: int) -> str:
        """One random run; what was wrong, in words, or empty."""
        chosen = np.random.default_rng(seed)
        job = random_job(chosen)
        timing = self.timing(chosen)
        disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
        wrong = self.compare(job, timing, disturbance)
        return f"seed {seed}: {wrong}; {job.geometry}, {job.epochs} epochs, batch {job.batch}" if wrong else ""

    def timing(self, chosen: Random) -> MemoryTiming:
        """One of the memories' timings."""
        return list(self.rtl)[chosen.integers(len(self.rtl))]

    def compare(self, job: Job, timing: MemoryTiming, disturbance: Disturbance = Disturbance()) -> str:  # noqa: B008
        """What differs between the RTL's outcome and the reference's, in words; empty when nothing does.

        Cycles and stalls are held against the prediction where nothing disturbs the buses.
        """
        self.rtl[timing].disturb(disturbance)
        got = Accelerator(self.rtl[timing]).run(job)
        expected = Accelerator(self.emulator).run(job)
        wrong = difference(got, expected)
        if disturbance == Disturbance():
            wrong += cycle_difference(got, job, timing)
        return "; ".join(wrong)

    def close(self) -> None:
        """Free the simulators."""
        for device in self.rtl.values():
            device.close()


def difference(got: Outcome, expected: Outcome) -> list[str]:
    """Which bits, that no memory's speed can change, differ between two outcomes."""
    results = ("loss", "master", "snapshots", "step", "rate", "phase")
    pairs = {name: (getattr(got, name), getattr(expected, name)) for name in results}
    pairs |= {
        name: (getattr(got.counters, name), getattr(expected.counters, name)) for name in ("beats", "saturations")
    }
    return _different(pairs)


def cycle_difference(got: Outcome, job: Job, timing: MemoryTiming) -> list[str]:
    """Which times differ from what `bitlane.cycles` predicts."""
    expected = predict(job.geometry, job.epochs, job.batch, job.snapshots, timing)
    pairs = {
        name: (getattr(got.counters, name), getattr(expected, name))
        for name in ("cycles", "stall_memory", "stall_model")
    }
    return _different(pairs | {"epoch_cycles": (got.epoch_cycles, expected.epoch_cycles)})


def _different(pairs: dict[str, tuple[object, object]]) -> list[str]:
    return [f"{name}: {a} instead of {b}" for name, (a, b) in pairs.items() if not np.array_equal(a, b)]  # type: ignore[arg-type]


def main() -> int:
    """Run until the time or the number of runs is over; exit status 1 where anything differed."""
    parser = argparse.ArgumentParser(description="Random runs of the RTL against the numpy reference.")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after this long (default 10)")
    parser.add_argument("--runs", type=int, default=None, help="stop after this many")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; fresh when not given")
    arguments = parser.parse_args()
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    end = time.monotonic() + 60 * arguments.minutes
    runs, failures = 0, 0
    bench = Bench()
    while time.monotonic() < end and runs != arguments.runs:
        if wrong := bench.run(first + runs):
            failures += 1
            print(wrong, flush=True)
        runs += 1
        if sys.stderr.isatty():
            print(f"\r{runs} runs, {failures} wrong", end="", file=sys.stderr)
    bench.close()
    print(f"{runs} runs from seed {first}, {failures} of them wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
