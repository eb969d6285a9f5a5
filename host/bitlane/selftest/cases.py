"""Runs with random samples, and the comparison of their results with the numpy reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming, predict
from bitlane.contract.formats import LABEL, LEVEL, MASTER
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import level_slots
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.precision import Precision
from bitlane.contract.prng import SEED_BITS
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.job import Job, JobResult
from bitlane.reference.machine import EpochResult, Rows, run_epochs

from .bench import CheckContext, CheckFailed
from .report import Figures

STEP = 0x9000 | 8 << 16  # 0.018: weights move and seldom saturate
STILL = {"step": 0, "step_negative": 0}  # settings with which weights do not change
SMALL_WEIGHTS = 26  # bits of the initial master weights: below 1/4
LARGE_WEIGHTS = MASTER.bits - 1
FASTEST = MemoryTiming(read_latency=1, write_latency=1)  # no memory answers sooner


def plain_precision(config: AcceleratorConfig) -> Precision:
    """Return the precision of a case that does not choose one: 4 bits with double sampling, or fewer if they fit."""
    plain = Precision(4, codebook=config.table_lanes)
    return plain if most_features(config, plain, staleness=1) else replace(plain, bits=3 if config.table_lanes else 2)


def most_features(config: AcceleratorConfig, precision: Precision, staleness: int = 0) -> int:
    """Return the most features that a build can train on at a precision."""
    words = config.max_row_words // (precision.digits + precision.half_digit) * config.chunk_features
    most = min(config.max_features >> staleness, words)
    if precision.codebook:
        most = min(most, config.level_slots // level_slots(precision.base_bits) * config.chunk_features)
    return most


@dataclass(frozen=True)
class Case:
    """A run with random samples, small and simple by default.

    Attributes
    ----------
    precision : Precision, optional
        `plain_precision` of the build when None.
    features, rows, batch, epochs : int
        Shape of the run. More features than the build can train on are reduced to its maximum.
    sets : int, default=2
        Sets of draws, or of samples with naive sampling; other samplings have one set.
    separate_samples : bool, default=False
        Whether each set has its own base region and labels.
    snapshots : bool, default=True
        Whether the weights of each epoch are stored.
    weight_bits : int, default=26
        Bits of the random initial master weights; 0 for zero weights.
    equal_levels : bool, default=False
        Whether all levels of all codebooks are equal, so that the slots that are read do not matter.
    active_output : int, optional
        The only output whose labels and initial weights are not 0; None for all.
    settings : mapping
        Changes of `Settings`; both steps are `STEP` otherwise.
    """

    precision: Precision | None = None
    features: int = 40
    rows: int = 37
    batch: int = 8
    epochs: int = 3
    sets: int = 2
    separate_samples: bool = False
    snapshots: bool = True
    weight_bits: int = SMALL_WEIGHTS
    equal_levels: bool = False
    active_output: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self, bench: CheckContext) -> tuple[Job, list[Rows]]:
        """Return the job, and its samples for the reference, one element for each set."""
        rng, config = bench.rng, bench.config
        precision = self.precision or plain_precision(config)
        settings = Settings(**{"step": STEP, "step_negative": STEP, **self.settings})
        features = min(self.features, most_features(config, precision, settings.staleness))
        geometry = Geometry.of(
            precision,
            features,
            self.rows,
            self.batch,
            config.rows_per_beat,
            config.outputs,
            config.shards,
            config.ports,
        )
        separate = self.separate_samples or precision.sampling == "naive"
        sets = self.sets if separate or precision.draws else 1
        bases = [self._base(rng, geometry) for _ in range(sets if separate else 1)]
        shape = self.rows, features
        draws = [rng.integers(4, size=shape, dtype=np.uint8) for _ in range(sets if precision.draws else 0)]
        job = Job(
            geometry,
            base_regions=[pack_base(codes, labels, geometry) for codes, labels in bases],
            draw_regions=[pack_draws(each, geometry) for each in draws],
            state=ModelState(self._master(rng, geometry), settings),
            epochs=self.epochs,
            snapshots=self.snapshots,
            levels=self._levels(rng, geometry) if precision.codebook else None,
        )
        samples: list[Rows] = []
        for number in range(sets):
            codes, labels = bases[number % len(bases)]
            samples.append((codes, draws[number] if draws else None, labels))
        return job, samples

    def _base(self, rng: np.random.Generator, geometry: Geometry) -> tuple[NDArray[np.uint32], NDArray[np.int16]]:
        """Random base codes and labels."""
        codes = rng.integers(1 << geometry.base_bits, size=(geometry.rows, geometry.features)).astype(np.uint32)
        shape = geometry.rows, geometry.outputs
        labels = rng.integers(-LABEL.maximum, LABEL.maximum, shape, np.int16, endpoint=True)
        return codes, self._of_active_output(labels)

    def _master(self, rng: np.random.Generator, geometry: Geometry) -> NDArray[np.int32]:
        """Random initial master weights."""
        limit = 1 << self.weight_bits if self.weight_bits else 1
        master = rng.integers(1 - limit, limit, (geometry.outputs, geometry.features))
        chosen: NDArray[np.int64] = self._of_active_output(master.T).T
        return chosen.clip(MASTER.minimum, MASTER.maximum).astype(np.int32)

    def _of_active_output(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values [any, outputs], with 0 for the outputs that are not active."""
        if self.active_output is None:
            return values
        chosen: NDArray[Any] = values * (np.arange(values.shape[1]) == self.active_output)
        return chosen.astype(values.dtype)

    def _levels(self, rng: np.random.Generator, geometry: Geometry) -> NDArray[np.int32]:
        """Random codebooks in ascending order, or a single level everywhere."""
        shape = (geometry.levels, geometry.features)
        if self.equal_levels:
            return np.full(shape, rng.integers(1, 1 << LEVEL.fraction), np.int32)
        reach = 1 << LEVEL.fraction
        return np.sort(rng.integers(-reach, reach, shape, endpoint=True), axis=0).astype(np.int32)

    def check(self, bench: CheckContext) -> Figures:
        """Run it, and raise CheckFailed if a bit differs from the reference or a counter is impossible."""
        job, samples = self.make(bench)
        result = bench.driver.run(job)
        problems = [*_differences(result, reference_epochs(job, samples)), *wrong_counters(bench, result, job)]
        if problems:
            raise CheckFailed("; ".join(problems))
        return {
            "epochs": self.epochs,
            "rows": self.rows,
            "features": job.geometry.features,
            "losses": result.loss.size,
            "weights": (result.state.master if result.snapshots is None else result.snapshots).size,
            "clipped": result.counters.saturations,
            **counter_figures(bench, result, job),
        }


def random_seed(rng: np.random.Generator) -> int:
    """Return a random seed of random rounding."""
    return int(rng.integers(1 << SEED_BITS))


def reference_epochs(job: Job, samples: list[Rows]) -> list[EpochResult]:
    """Return the epochs of the numpy reference, from the samples themselves instead of their packed words."""
    epochs = (samples[epoch % len(samples)] for epoch in range(job.epochs))
    return list(run_epochs(epochs, job.geometry, job.state, job.levels))


def predicted_cycles(config: AcceleratorConfig, job: Job, timing: MemoryTiming) -> NDArray[np.int64]:
    """Return int64 [epochs + 1]: cycles from the start to the end of each epoch, and to the end of the run."""
    counted = predict(
        job.geometry, job.epochs, job.snapshots, job.state.settings.staleness, timing, config.random_rounding
    )
    return np.array([*counted.epoch_cycles, counted.cycles], np.int64)


def wrong_counters(bench: CheckContext, result: JobResult, job: Job) -> list[str]:
    """Return messages about counters that no memory explains: a wrong number of beats, or too few cycles."""
    problems = []
    beats = job.geometry.load_beats + job.epochs * job.geometry.beats
    if result.counters.beats != beats:
        problems.append(f"{result.counters.beats:,} beats read instead of {beats:,}")
    took = np.diff([0, *result.epoch_cycles, result.counters.cycles])
    least = np.diff(predicted_cycles(bench.config, job, FASTEST), prepend=0)
    for epoch in np.flatnonzero(took < least)[:1]:
        which = f"epoch {epoch}" if epoch < job.epochs else "the end of the run"
        problems.append(f"{which} took {took[epoch]:,} cycles, fewer than the minimum of {least[epoch]:,}")
    return problems


def counter_figures(bench: CheckContext, result: JobResult, job: Job) -> Figures:
    """Return beats, measured cycles, and the cycles predicted for a memory of the usual latency without stalls."""
    predicted = int(predicted_cycles(bench.config, job, MemoryTiming())[-1])
    return {"beats": result.counters.beats, "cycles": result.counters.cycles, "predicted": predicted}


def _differences(result: JobResult, epochs: list[EpochResult]) -> list[str]:
    """Return messages about the differences between a result and the reference."""
    last = epochs[-1]
    losses = np.array([epoch.loss for epoch in epochs])
    if result.snapshots is None:
        models, weights = result.state.master, last.state.master
        template = "final weight of output {}, feature {}"
    else:
        models, weights = result.snapshots, np.array([epoch.state.master for epoch in epochs])
        template = "weight after epoch {}, output {}, feature {}"
    problems = [
        _first_difference("loss of epoch {}, output {}", result.loss, losses),
        _first_difference(template, models, weights),
    ]
    asked = result.state.settings
    seed = ("seed",) if asked.model_cut or asked.scaled_gradient_cut else ()  # it belongs to the checks of rounding
    for name in ("step", "step_negative", "penalty_step", "phase", *seed):
        got, expected = getattr(result.state.settings, name), getattr(last.state.settings, name)
        if got != expected:
            problems.append(f"{name} at the end is {got:#x} instead of {expected:#x}")
    if result.counters.saturations != last.saturations:
        problems.append(f"{result.counters.saturations:,} saturations counted instead of {last.saturations:,}")
    return [problem for problem in problems if problem]


def _first_difference(template: str, got: NDArray[Any], expected: NDArray[Any]) -> str:
    """Return a message about the first value that differs, or "". `template` names it, given its indices."""
    wrong = np.argwhere(got != expected)
    if not len(wrong):
        return ""
    at = tuple(wrong[0])
    where = template.format(*wrong[0].tolist())
    return f"{where} is {got[at]} instead of {expected[at]} ({len(wrong):,} of {got.size:,} differ)"
