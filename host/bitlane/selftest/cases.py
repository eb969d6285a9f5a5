"""Runs of any kind, and what the accelerator made of one against what the numpy reference makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.formats import LABEL, MASTER
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.precision import Precision
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.job import Job, JobResult
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.reference.machine import EpochResult, Rows, run_epochs

from .bench import CheckContext, CheckFailed
from .report import Figures

PLAIN = Precision(4)
STEP = 0x9000 | 8 << 16  # 0.018, at which weights move and seldom clip
SMALL_WEIGHTS = 26  # bits of the master weights that a run begins with: below 1/4
FASTEST = MemoryTiming(read_latency=1, write_latency=1)  # no memory answers sooner


@dataclass(frozen=True)
class Case:
    """A run, small and plain unless something is said.

    Parameters
    ----------
    precision, features, rows, batch, epochs, snapshots: as everywhere; the rows are random.
    sets: of draws (double), or of samples (naive); the others have one.
    weight_bits: of the random master weights to begin with.
    settings: those that are not `Settings`' own, or not `STEP`.
    """

    precision: Precision = PLAIN
    features: int = 40
    rows: int = 37
    batch: int = 8
    epochs: int = 3
    sets: int = 2
    snapshots: bool = True
    weight_bits: int = SMALL_WEIGHTS
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self, bench: CheckContext) -> tuple[Job, list[Rows]]:
        """The job, and its samples as the reference takes them, one a set."""
        rng, config, precision = bench.rng, bench.driver.config, self.precision
        shape = self.features, self.rows, self.batch
        geometry = Geometry.of(precision, *shape, rows_per_beat=config.rows_per_beat, outputs=config.outputs)
        values = rng.uniform(-1, 1, (self.rows, self.features))
        labels = rng.integers(-LABEL.maximum, LABEL.maximum, (self.rows, config.outputs), np.int16, endpoint=True)
        fresh = precision.sampling == "naive"
        sets = self.sets if fresh or precision.draws else 1
        codes = [base_codes(values, precision, rng) for _ in range(sets if fresh else 1)]
        draws = [draw_codes(values, precision, rng) for _ in range(sets if precision.draws else 0)]
        master = rng.integers(-(1 << self.weight_bits), 1 << self.weight_bits, (config.outputs, self.features))
        settings = Settings(**{"step": STEP, "step_negative": STEP, **self.settings})
        job = Job(
            geometry,
            base_regions=[pack_base(each, labels, geometry) for each in codes],
            draw_regions=[pack_draws(each, geometry) for each in draws],
            state=ModelState(master.clip(MASTER.minimum, MASTER.maximum).astype(np.int32), settings),
            epochs=self.epochs,
            snapshots=self.snapshots,
        )
        samples: list[Rows] = [(codes[i % len(codes)], draws[i] if draws else None, labels) for i in range(sets)]
        return job, samples

    def check(self, bench: CheckContext) -> Figures:
        """Runs it, and expects every bit of the reference and no impossible cycle count."""
        job, samples = self.make(bench)
        outcome = bench.driver.run(job)
        problems = [*_wrong_bits(outcome, job, reference_epochs(job, samples)), *wrong_counts(outcome, job)]
        if problems:
            raise CheckFailed("; ".join(problems))
        return {
            "epochs": self.epochs,
            "rows": self.rows,
            "features": self.features,
            "losses": outcome.loss.size,
            "weights": (outcome.state.master if outcome.snapshots is None else outcome.snapshots).size,
            "clipped": outcome.counters.saturations,
            **counts(outcome, job),
        }


def reference_epochs(job: Job, samples: list[Rows]) -> list[EpochResult]:
    """What the numpy reference makes of a job, from the samples themselves, not from their packed words."""
    epochs = (samples[epoch % len(samples)] for epoch in range(job.epochs))
    return list(run_epochs(epochs, job.geometry, job.state, job.levels))


def predicted_cycles(job: Job, timing: MemoryTiming) -> NDArray[np.int64]:
    """int64 [epochs + 1]: from the start to the end of each epoch, and to done."""
    settings = job.state.settings
    counted = predict(job.geometry, job.epochs, job.snapshots, settings.staleness, timing)
    return np.array([*counted.epoch_cycles, counted.cycles], np.int64)


def wrong_counts(outcome: JobResult, job: Job) -> list[str]:
    """Counters that no memory can explain: other beats, or a part of the run in fewer cycles than it takes."""
    problems = []
    beats = job.geometry.load_beats + job.epochs * job.geometry.beats
    if outcome.counters.beats != beats:
        problems.append(f"{outcome.counters.beats:,} beats read instead of {beats:,}")
    took = np.diff([0, *outcome.epoch_cycles, outcome.counters.cycles])
    least = np.diff(predicted_cycles(job, FASTEST), prepend=0)
    for epoch in np.flatnonzero(took < least)[:1]:
        part = f"epoch {epoch}" if epoch < job.epochs else "the end of the run"
        problems.append(f"{part} took {took[epoch]:,} cycles, fewer than the {least[epoch]:,} that it needs")
    return problems


def counts(outcome: JobResult, job: Job) -> Figures:
    """Figures of a run's time: measured, and predicted for a memory of the usual latency that never stalls."""
    predicted = int(predicted_cycles(job, MemoryTiming())[-1])
    return {"beats": outcome.counters.beats, "cycles": outcome.counters.cycles, "predicted": predicted}


def _wrong_bits(outcome: JobResult, job: Job, epochs: list[EpochResult]) -> list[str]:
    """What differs from the reference, in words."""
    last = epochs[-1]
    models = outcome.state.master[None] if outcome.snapshots is None else outcome.snapshots
    pairs: list[tuple[str, NDArray[Any], NDArray[Any]]] = [
        ("loss of epoch and output", outcome.loss, np.array([epoch.loss for epoch in epochs])),
        (
            "weight of model, output and feature",
            models,
            np.array([epoch.state.master for epoch in epochs])[-len(models) :],
        ),
    ]
    problems = [_different(*pair) for pair in pairs]
    for name in ("step", "step_negative", "penalty_step", "phase"):
        got, expected = getattr(outcome.state.settings, name), getattr(last.state.settings, name)
        if got != expected:
            problems.append(f"{name} ended at {got:#x} instead of {expected:#x}")
    if outcome.counters.saturations != last.saturations:
        problems.append(f"{outcome.counters.saturations:,} values clipped instead of {last.saturations:,}")
    return [problem for problem in problems if problem]


def _different(what: str, got: NDArray[Any], expected: NDArray[Any]) -> str:
    """How many values of an array differ, and the first that does; empty where none does."""
    wrong = np.argwhere(got != expected)
    if not len(wrong):
        return ""
    at = tuple(wrong[0])
    place = ", ".join(map(str, wrong[0].tolist()))
    return f"{len(wrong)} of {got.size:,} wrong, the first: {what} {place} is {got[at]} instead of {expected[at]}"
