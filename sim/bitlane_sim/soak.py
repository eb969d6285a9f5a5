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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.accelerator import Accelerator, Job, Outcome
from bitlane.contract import (
    BOUND,
    CHUNK,
    LABEL,
    LEVEL,
    MASTER,
    MAX_CUT,
    MAX_DIGITS,
    SEED_BITS,
    TABLE_BITS,
    Loss,
    Prox,
    level_slots,
)
from bitlane.cycles import MemoryTiming, predict
from bitlane.devices.emulator import EmulatorDevice
from bitlane.fixed import NO_DECAY
from bitlane.layout import Geometry, Words, pack_base, pack_draws
from bitlane.settings import Settings
from bitlane_hw.config import AcceleratorConfig

from .device import RtlDevice
from .harness import Disturbance

Random = np.random.Generator


def _small(width: int, outputs: int, level_slots: int = 0, random: bool = False) -> AcceleratorConfig:
    """Whose largest model a random run soon meets."""
    return AcceleratorConfig(
        width, outputs, max_features=512, row_buffer_beats=512, level_slots=level_slots, random=random
    )


SMALL = _small(64, 1)
# Tables for 512 features of up to five levels, 256 of nine; and random rounding.
SMALL_TABLE = _small(64, 1, level_slots=128, random=True)
# By `make test`, which has no time to build more.
TESTED = (SMALL, SMALL_TABLE, _small(128, 2))
DIGIT_LANES = tuple(config for config in TESTED if not config.table)
CONFIGS = (
    *TESTED,
    _small(64, 3),
    _small(128, 2, random=True),
    _small(256, 1),
    AcceleratorConfig(512),
    _small(128, 2, level_slots=128),
    _small(512, 1, level_slots=128),
)
CAPACITY = 16 << 20
TIMINGS = tuple(MemoryTiming(latency) for latency in (1, 7, 30, 60, 100))  # what the prefetch buffers cover
EPOCH_BEATS = 2500  # the most that a random epoch reads, about
DISTURBED = 0.5  # of the runs have stalls on the buses


def random_job(
    chosen: Random,
    config: AcceleratorConfig = SMALL,
    features: int = 512,
    rows: int | None = None,
    epochs: int = 4,
    batch: int | None = None,
) -> Job:
    """Any run that this hardware takes: small sizes, partial batches and groups, and saturation included.

    Parameters
    ----------
    chosen: where the choices come from.
    config: of the hardware.
    features, rows, epochs: the most that there may be; 40 rows for each column, and 40, when None. Long rows are fewer.
    batch: rows of a mini-batch; any when None.
    """
    columns = config.columns
    base_bits = int(chosen.choice(TABLE_BITS)) if config.table else 0
    room = config.level_slots // level_slots(base_bits) * CHUNK if config.table else config.max_features
    features = min(features, config.max_features, room)
    features = _size(chosen, features, (1, 31, 32, 33, 64, 65, (features + 1) // 2, features))
    draws = config.table or bool(chosen.random() < 0.6)
    digits = base_bits // 2 + 1 if config.table else _size(chosen, MAX_DIGITS, (1, 2, 3, 4, MAX_DIGITS))
    most = columns * (EPOCH_BEATS // (-(-features // CHUNK) * digits))
    most = min(most, 40 * (columns + 1) if rows is None else rows)
    rows = _size(chosen, most, (1, 2, 3, 4, 5, 8, columns, 4 * columns, 4 * columns + 1, most))
    geometry = Geometry(
        features,
        rows,
        base_digits=digits - draws,
        draws=draws,
        batch=batch or _size(chosen, 2 * rows, (1, 2, columns, columns + 1, 2 * columns, rows)),
        columns=columns,
        outputs=config.outputs,
        half=base_bits % 2 == 1,
        table=config.table,
    )
    shape = (geometry.rows, geometry.features)
    largest_label = 1 << int(chosen.integers(LABEL.bits))

    def base() -> Words:
        codes = chosen.integers(0, 1 << geometry.base_bits, shape).astype(np.uint32)
        labels = chosen.integers(-largest_label, largest_label, (geometry.rows, geometry.outputs))
        return pack_base(codes, labels.astype(np.int16), geometry)

    sets = int(chosen.integers(1, 3, endpoint=True))
    reach = int(chosen.choice([0, 24, MASTER.bits - 1]))  # weights at zero, small, or anywhere
    master = chosen.integers(-(1 << reach), 1 << reach, (geometry.outputs, geometry.features))
    return Job(
        geometry,
        base=[base() for _ in range(1 if draws else sets)],
        draws=[
            pack_draws(chosen.integers(0, 4, shape).astype(np.uint8), geometry) for _ in range(sets if draws else 0)
        ],
        master=master.clip(MASTER.minimum, MASTER.maximum).astype(np.int32),
        epochs=int(chosen.integers(1, epochs, endpoint=True)),
        settings=random_settings(chosen, 2 * geometry.chunks <= config.max_chunks, config.random),
        snapshots=bool(chosen.integers(2)),
        levels=random_levels(chosen, geometry) if config.table else None,
    )


def random_levels(chosen: Random, geometry: Geometry) -> NDArray[np.int32]:
    """Tables int32 [levels, n], sorted: levels anywhere, in a few places, close to zero, or at both ends."""
    shape = (geometry.levels, geometry.features)
    reach = 1 << int(chosen.choice([LEVEL.bits - 1, LEVEL.fraction, 4]))
    levels = chosen.integers(-reach, reach, shape)
    if chosen.random() < 0.3:
        levels = chosen.choice([LEVEL.minimum, -1, 0, LEVEL.maximum], shape)
    return np.sort(levels, axis=0).astype(np.int32)


def random_settings(chosen: Random, two_models: bool, rounding: bool = False) -> Settings:
    """Any settings, those with staleness only where the model memory has room for two models."""
    step = _mantissa_exponent(chosen)
    return Settings(
        step=step,
        step_negative=step if chosen.random() < 0.5 else _mantissa_exponent(chosen),
        rate=_mantissa_exponent(chosen) if chosen.random() < 0.8 else 0,
        decay=int(chosen.choice([NO_DECAY, int(chosen.integers(NO_DECAY // 2, NO_DECAY))])),
        phase=int(chosen.integers(1 << 32)),
        loss=Loss(int(chosen.choice(list(Loss)))),
        prox=Prox(int(chosen.choice(list(Prox)))),
        bounds=_bounds(chosen),
        free=bool(chosen.integers(2)),
        staleness=int(two_models and chosen.integers(2)),
        model_cut=_cut(chosen) if rounding else 0,
        coefficient_cut=_cut(chosen) if rounding else 0,
        seed=int(chosen.integers(1 << SEED_BITS)) if rounding else 0,
    )


def _cut(chosen: Random) -> int:
    """Of random rounding: often none."""
    return int(chosen.integers(1, MAX_CUT + 1)) if chosen.random() < 0.7 else 0


def _size(chosen: Random, largest: int, special: tuple[int, ...]) -> int:
    """A special size, or any, small ones as often as large ones."""
    if chosen.random() < 0.5:
        return min(largest, int(chosen.choice(special)))
    return int((largest + 1) ** chosen.random())


def _mantissa_exponent(chosen: Random) -> int:
    normal = chosen.random() < 0.9
    mantissa = chosen.integers(1 << 15, 1 << 16) if normal else chosen.integers(1 << 16)  # the rest is what decays make
    return int(mantissa) | int(chosen.integers(0, 32 if chosen.random() < 0.2 else 24)) << 16


def _bounds(chosen: Random) -> tuple[int, int]:
    """Of the box: around zero, on one side, at one point, or no bounds at all."""
    low, high = sorted(int(end) for end in chosen.integers(BOUND.minimum, BOUND.maximum, 2) >> chosen.integers(16))
    choices = [(low, high), (0, max(0, high)), (low, low), (BOUND.minimum, BOUND.maximum)]
    return choices[chosen.integers(len(choices))]


def emulator_of(config: AcceleratorConfig, capacity_bytes: int = CAPACITY) -> EmulatorDevice:
    """The reference as a device of this configuration."""
    return EmulatorDevice(
        config.max_features,
        config.max_row_words,
        capacity_bytes,
        width=config.width,
        outputs=config.outputs,
        level_slots=config.level_slots,
        random=config.random,
    )


@dataclass(frozen=True)
class Variant:
    """Hardware, and a memory behind it."""

    config: AcceleratorConfig
    timing: MemoryTiming


class Bench:
    """The RTL in several configurations, each with memories of several timings, the reference, and a comparison."""

    def __init__(
        self,
        configs: Sequence[AcceleratorConfig] = CONFIGS,
        capacity_bytes: int = CAPACITY,
        timings: Sequence[MemoryTiming] = TIMINGS,
        device: Callable[[AcceleratorConfig, int, MemoryTiming], RtlDevice] = RtlDevice,
    ):
        self.rtl = {
            Variant(config, timing): device(config, capacity_bytes, timing) for config in configs for timing in timings
        }
        self.emulators = {config: emulator_of(config, capacity_bytes) for config in configs}

    def run(self, seed: int) -> str:
        """One random run; what was wrong, in words, or empty."""
        chosen = np.random.default_rng(seed)
        variant = self.variant(chosen)
        job = random_job(chosen, variant.config)
        disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
        wrong = self.compare(job, variant, disturbance)
        return f"seed {seed}: {wrong}; {variant}, {job.geometry}, {job.epochs} epochs, {job.settings}" if wrong else ""

    def variant(self, chosen: Random) -> Variant:
        """One of those that there are."""
        return list(self.rtl)[chosen.integers(len(self.rtl))]

    def compare(self, job: Job, variant: Variant, disturbance: Disturbance = Disturbance()) -> str:  # noqa: B008
        """What differs between the RTL's outcome and the reference's, in words; empty when nothing does.

        Cycles and stalls are held against the prediction where nothing disturbs the buses.
        """
        self.rtl[variant].disturb(disturbance)
        got = Accelerator(self.rtl[variant]).run(job)
        expected = Accelerator(self.emulators[variant.config]).run(job)
        wrong = difference(got, expected)
        if disturbance == Disturbance():
            wrong += cycle_difference(got, job, variant.timing, variant.config.random)
        return "; ".join(wrong)

    def close(self) -> None:
        """Free the simulators."""
        for device in self.rtl.values():
            device.close()


def difference(got: Outcome, expected: Outcome) -> list[str]:
    """Which bits, that no memory's speed can change, differ between two outcomes."""
    results = ("loss", "master", "snapshots", "settings")
    pairs = {name: (getattr(got, name), getattr(expected, name)) for name in results}
    pairs |= {
        name: (getattr(got.counters, name), getattr(expected.counters, name)) for name in ("beats", "saturations")
    }
    return _different(pairs)


def cycle_difference(got: Outcome, job: Job, timing: MemoryTiming, random: bool = False) -> list[str]:
    """Which times differ from what `bitlane.cycles` predicts, for hardware with random rounding or without."""
    expected = predict(job.geometry, job.epochs, job.snapshots, job.settings.staleness, timing, random)
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
