"""Measurements: cycles beside those predicted, bandwidth, and the clock as the host sees it."""

from __future__ import annotations

import time
from dataclasses import replace

from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.layout import MAX_EPOCHS
from bitlane.contract.precision import Precision
from bitlane.driver.job import Job, JobResult

from .bench import Check, CheckContext, CheckFailed
from .cases import Case, predicted_cycles, wrong_counts
from .report import Figures

GROUPS = 256  # of an epoch
FEATURES = 784
BATCH_GROUPS = 64
FIRST_EPOCHS = 3
LONG_ENOUGH = 0.25  # seconds of a run whose time on the wall says something
MOST_TIMES = 8  # as many epochs as in the attempt before
BITS = (2, 4, 8)


def checks() -> list[Check]:
    """One for each precision, and one with staleness."""
    return [
        *(Check(f"speed: {bits} bits, staleness 0", _Measurement(bits, 0).run) for bits in BITS),
        Check(f"speed: {BITS[0]} bits, staleness 1", _Measurement(BITS[0], 1).run),
    ]


class _Measurement:
    """A run of a shape that keeps the memory port busy."""

    def __init__(self, bits: int, staleness: int):
        self._bits = bits
        self._staleness = staleness

    def run(self, bench: CheckContext) -> Figures:
        """Measures, with as many epochs as it takes to see the clock through the driver's own time."""
        columns, fits = bench.driver.config.rows_per_beat, bench.driver.config.max_features >> self._staleness
        job, _ = Case(
            Precision(self._bits),
            features=min(FEATURES, fits),
            rows=GROUPS * columns,
            batch=BATCH_GROUPS * columns,
            epochs=FIRST_EPOCHS,
            sets=1,
            snapshots=False,
            settings={"staleness": self._staleness},
        ).make(bench)
        short, short_seconds = _timed(bench, job)
        long_job, outcome, seconds = job, short, short_seconds
        while seconds < LONG_ENOUGH and long_job.epochs < MAX_EPOCHS:
            times = min(MOST_TIMES, 1 + int(LONG_ENOUGH / seconds))
            long_job = replace(long_job, epochs=min(MAX_EPOCHS, long_job.epochs * times))
            outcome, seconds = _timed(bench, long_job)
        return {
            **_figures(bench, long_job, outcome),
            **_clock(bench, short, short_seconds, outcome, seconds),
        }


def _timed(bench: CheckContext, job: Job) -> tuple[JobResult, float]:
    """A run whose counters are possible, and its seconds on the wall, driver and all."""
    begin = time.monotonic()
    outcome = bench.driver.run(job)
    seconds = time.monotonic() - begin
    if problems := wrong_counts(outcome, job):
        raise CheckFailed("; ".join(problems))
    return outcome, seconds


def _figures(bench: CheckContext, job: Job, outcome: JobResult) -> Figures:
    """What the hardware counted, an epoch in the long run, and what a memory that never stalls allows."""
    cycles, geometry = outcome.counters.cycles, job.geometry
    predicted = int(predicted_cycles(job, MemoryTiming())[-1])
    return {
        "epochs": job.epochs,
        "cycles": cycles,
        "predicted": predicted,
        "measured / predicted": cycles / predicted,
        "of the layout bound": job.epochs * geometry.layout_bound / cycles,
        "waited for memory": outcome.counters.stall_memory / cycles,
        "bytes a cycle": outcome.counters.beats * bench.driver.config.width / 8 / cycles,
    }


def _clock(bench: CheckContext, short: JobResult, short_seconds: float, long: JobResult, seconds: float) -> Figures:
    """The clock and the bandwidth between the two runs, which have the same overhead on the host."""
    cycles = long.counters.cycles - short.counters.cycles
    beats = long.counters.beats - short.counters.beats
    between = seconds - short_seconds
    if cycles <= 0 or between <= 0:  # the first run was long already
        cycles, beats, between = long.counters.cycles, long.counters.beats, seconds
    return {
        "apparent MHz": cycles / between / 1e6,
        "MB/s": beats * bench.driver.config.width / 8 / between / 1e6,
    }
