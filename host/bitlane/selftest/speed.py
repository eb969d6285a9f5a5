"""Measurements of long runs: cycles next to the prediction, bandwidth, and the clock frequency."""

from __future__ import annotations

import time
from dataclasses import replace

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.layout import MAX_EPOCHS
from bitlane.contract.precision import Precision
from bitlane.driver.job import Job, JobResult

from .bench import BlockCheck, CheckContext, CheckFailed
from .blocks import THROUGHPUT
from .cases import Case, predicted_cycles, wrong_counters
from .datapath import TABLE_PRECISIONS
from .datapath import precisions as precisions_of
from .report import Figures

GROUPS = 256  # row groups of an epoch
FEATURES = 784
BATCH_GROUPS = 64
FIRST_EPOCHS = 3
LONG_ENOUGH = 0.25  # seconds of a run that is long enough to measure the clock
MOST_TIMES = 8  # factor of the epochs from one attempt to the next
DIGIT_PRECISIONS = tuple(Precision(bits) for bits in (2, 4, 8))


def checks(config: AcceleratorConfig) -> list[BlockCheck]:
    """Return a measurement of each precision, and one with staleness 1."""
    available = precisions_of(config)
    precisions = [each for each in TABLE_PRECISIONS + DIGIT_PRECISIONS if each in available]
    measured = [*((precision, 0) for precision in precisions), (precisions[0], 1)]
    return [
        BlockCheck(THROUGHPUT, f"{precision.bits} bits, staleness {staleness}", _Measurement(precision, staleness).run)
        for precision, staleness in measured
    ]


class _Measurement:
    """A run with a shape that keeps the memory port busy."""

    def __init__(self, precision: Precision, staleness: int):
        self._precision = precision
        self._staleness = staleness

    def run(self, bench: CheckContext) -> Figures:
        """Measure with more and more epochs, until the run is long next to the time of the driver."""
        rows = bench.config.rows_per_beat
        job, _ = Case(
            self._precision,
            features=FEATURES,
            rows=GROUPS * rows,
            batch=BATCH_GROUPS * rows,
            epochs=FIRST_EPOCHS,
            sets=1,
            snapshots=False,
            settings={"staleness": self._staleness},
        ).make(bench)
        short, short_seconds = _timed(bench, job)
        long_job, result, seconds = job, short, short_seconds
        while seconds < LONG_ENOUGH and long_job.epochs < MAX_EPOCHS:
            times = min(MOST_TIMES, 1 + int(LONG_ENOUGH / seconds))
            long_job = replace(long_job, epochs=min(MAX_EPOCHS, long_job.epochs * times))
            result, seconds = _timed(bench, long_job)
        return {
            **_figures(bench, long_job, result),
            **_clock(bench, short, short_seconds, result, seconds),
        }


def _timed(bench: CheckContext, job: Job) -> tuple[JobResult, float]:
    """Return the result of a run with plausible counters, and its seconds including the driver."""
    begin = time.monotonic()
    result = bench.driver.run(job)
    seconds = time.monotonic() - begin
    if problems := wrong_counters(bench, result, job):
        raise CheckFailed("; ".join(problems))
    return result, seconds


def _figures(bench: CheckContext, job: Job, result: JobResult) -> Figures:
    """Counters of the run, next to the prediction for a memory that never stalls."""
    cycles, geometry = result.counters.cycles, job.geometry
    predicted = int(predicted_cycles(bench.config, job, MemoryTiming())[-1])
    return {
        "epochs": job.epochs,
        "cycles": cycles,
        "predicted": predicted,
        "measured / predicted": cycles / predicted,
        "layout bound / measured": job.epochs * geometry.layout_bound / cycles,
        "fraction waiting for memory": result.counters.stall_memory / cycles,
        "bytes per cycle": result.counters.beats * bench.config.width / 8 / cycles,
    }


def _clock(bench: CheckContext, short: JobResult, short_seconds: float, long: JobResult, seconds: float) -> Figures:
    """Clock and bandwidth, from the difference of the two runs, which have the same overhead on the host."""
    cycles = long.counters.cycles - short.counters.cycles
    beats = long.counters.beats - short.counters.beats
    between = seconds - short_seconds
    if cycles <= 0 or between <= 0:  # the first run is long enough already
        cycles, beats, between = long.counters.cycles, long.counters.beats, seconds
    return {
        "apparent MHz": cycles / between / 1e6,
        "MB/s": beats * bench.config.width / 8 / between / 1e6,
    }
