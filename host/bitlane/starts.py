"""Which rows and epochs go into which start of the accelerator, and the words that each start is given."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .accelerator import Job, Outcome, job_bytes
from .contract import LABELS_PER_WORD, MAX_ROWS
from .errors import DataError
from .fixed import NO_DECAY
from .layout import Geometry, Words, pack_base, pack_draws
from .levels.codes import table_codes, table_draws
from .levels.tables import LevelTable
from .quantize import Precision, base_codes, draw_codes
from .scaling import Floats, Scaling, Table
from .settings import Settings

ENCODE_VALUES = 1 << 18  # values scaled and quantized at a time


@dataclass(frozen=True)
class State:
    """What one start hands to the next: master weights int32 [outputs, n], and the registers."""

    master: NDArray[np.int32]
    settings: Settings

    def after(self, outcome: Outcome) -> State:
        """The state that a start left; what a start is told of the decay does not stay."""
        return State(outcome.master, replace(outcome.settings, decay=self.settings.decay))


@dataclass(frozen=True)
class Plan:
    """How a run is cut so that each start fits the memory of the device.

    Parameters
    ----------
    geometry: of an epoch over all rows.
    epochs: of the training, `first_epoch` of which have been run before.
    sets: epoch e reads set `e mod sets`, counted from the first of the training.
    shared_base: whether one base region serves all sets.
    snapshots: whether the models of each epoch are wanted.
    capacity: bytes of the device.
    """

    geometry: Geometry
    epochs: int
    sets: int
    shared_base: bool
    snapshots: bool
    capacity: int
    first_epoch: int = 0

    def bytes_needed(self, geometry: Geometry, epochs: int, snapshots: bool) -> int:
        """Bytes of a start."""
        sets = min(self.sets, epochs)
        return job_bytes(geometry, epochs, 1 if self.shared_base else sets, sets, snapshots)

    @cached_property
    def start_epochs(self) -> int:
        """Epochs a start over all rows: all, or as many as leave room for the next's. 0 where not even one fits."""
        fitting = self._epochs_in(self.capacity)
        return fitting if fitting == self.epochs - self.first_epoch else self._epochs_in(self.capacity // 2) or fitting

    @cached_property
    def part_rows(self) -> int:
        """Rows a start where not all fit: a multiple of the batch, with room for the next start's where that can be.

        DataError where not even a batch fits.
        """
        batches = self._batches_in(self.capacity // 2) or self._batches_in(self.capacity)
        if not batches:
            raise DataError(
                f"a batch of {self.geometry.batch} rows does not fit the {self.capacity} bytes of the device: "
                "lower batch_size or bits"
            )
        return batches * self.geometry.batch

    @property
    def ahead(self) -> bool:
        """Whether the samples of a start may be loaded while the one before it runs."""
        half = self.capacity // 2
        return bool(self._epochs_in(half) if self.start_epochs else self._batches_in(half))

    def _epochs_in(self, capacity: int) -> int:
        if self.geometry.groups > MAX_ROWS:
            return 0
        return bisect_right(
            range(1, self.epochs - self.first_epoch + 1),
            capacity,
            key=lambda epochs: self.bytes_needed(self.geometry, epochs, self.snapshots),
        )

    def _batches_in(self, capacity: int) -> int:
        geometry = self.geometry
        return bisect_right(
            range(1, min(MAX_ROWS // geometry.batch_groups, geometry.rows // geometry.batch) + 1),
            capacity,
            key=lambda batches: self.bytes_needed(replace(geometry, rows=batches * geometry.batch), 1, False),
        )


@dataclass(frozen=True)
class Start:
    """One start: its data, the epochs it runs, and its place among the others."""

    geometry: Geometry
    base: list[Words]
    draws: list[Words]
    epochs: int
    whole: bool  # over all rows; otherwise one epoch over some
    ends_epoch: bool
    levels: LevelTable | None = None

    def job(self, plan: Plan, state: State) -> Job:
        """The job that goes on from `state`. Only what ends an epoch decays.

        DataError for a part of an epoch with staleness: its first batches would read a model too new.
        """
        settings = state.settings
        if settings.staleness and not self.whole:
            raise DataError(
                f"with staleness={settings.staleness} all rows must fit the {plan.capacity} bytes of the device: "
                "lower bits, or use staleness=0"
            )
        return Job(
            geometry=self.geometry,
            base=self.base,
            draws=self.draws,
            master=state.master,
            epochs=self.epochs,
            settings=settings if self.ends_epoch else replace(settings, decay=NO_DECAY),
            snapshots=plan.snapshots and self.whole,
            levels=self.levels,
        )


def starts(plan: Plan, samples: Samples) -> Iterator[Start]:
    """All starts of a run, in order, each encoded when its turn comes."""
    if plan.start_epochs:
        return _starts_of_epochs(plan, samples)
    return _starts_of_rows(plan, samples)


def _starts_of_epochs(plan: Plan, samples: Samples) -> Iterator[Start]:
    geometry = plan.geometry
    shared = [samples.base(geometry, 0, None)] if plan.shared_base else None
    for first in range(plan.first_epoch, plan.epochs, plan.start_epochs):
        epochs = min(plan.start_epochs, plan.epochs - first)
        sets = [(first + i) % plan.sets for i in range(min(plan.sets, epochs))]
        base = shared or [samples.base(geometry, 0, samples.generator(k)) for k in sets]
        draws = [samples.draws(geometry, 0, samples.generator(k)) for k in sets] if geometry.draws else []
        yield Start(geometry, base, draws, epochs, whole=True, ends_epoch=True, levels=samples.levels)


def _starts_of_rows(plan: Plan, samples: Samples) -> Iterator[Start]:
    rows = plan.geometry.rows
    for epoch in range(plan.first_epoch, plan.epochs):
        rng = samples.generator(epoch % plan.sets)
        for first in range(0, rows, plan.part_rows):
            geometry = replace(plan.geometry, rows=min(plan.part_rows, rows - first))
            draws = [samples.draws(geometry, first, rng)] if geometry.draws else []
            base = [samples.base(geometry, first, rng)]
            ends = first + geometry.rows == rows
            yield Start(geometry, base, draws, 1, whole=False, ends_epoch=ends, levels=samples.levels)


def generator(seed: int, purpose: int) -> np.random.Generator:
    """Randomness of its own for a purpose: not `default_rng(seed)`, with which a user may have made the data."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


class Samples:
    """Any rows of a table as words.

    Parameters
    ----------
    X: [rows, n]; y: [rows, outputs], in user units.
    scaling: of both, `scaling.values` with as many columns as the geometry has features.
    precision: of the stored samples.
    seed: of the draws.
    levels: of each feature, where the precision has a table.
    """

    def __init__(
        self,
        X: Table,
        y: Table,
        scaling: Scaling,
        precision: Precision,
        seed: int,
        levels: LevelTable | None = None,
    ):
        self.levels = levels
        self._X = X
        self._y = y
        self._scaling = scaling
        self._precision = precision
        self._seed = seed

    def generator(self, number: int) -> np.random.Generator:
        """The randomness of a set, whatever else is drawn."""
        return generator(self._seed, number)

    def base(self, geometry: Geometry, first: int, rng: np.random.Generator | None) -> Words:
        """The base region of this geometry, whose rows are those from `first` on; rng for naive sampling alone."""
        pieces = []
        for groups, rows in self._pieces(geometry, first):
            codes = self._base_codes(self._scaling.values(self._X[rows]), rng)
            pieces.append(pack_base(codes, self._scaling.labels(self._y[rows]), geometry, groups))
        return np.concatenate(pieces)

    def draws(self, geometry: Geometry, first: int, rng: np.random.Generator) -> Words:
        """The draw region of the same rows."""
        pieces = []
        for groups, rows in self._pieces(geometry, first):
            codes = self._draw_codes(self._scaling.values(self._X[rows]), rng)
            pieces.append(pack_draws(codes, geometry, groups))
        return np.concatenate(pieces)

    def _base_codes(self, values: Floats, rng: np.random.Generator | None) -> NDArray[np.uint32]:
        if self.levels is not None:
            return table_codes(values, self.levels)
        return base_codes(values, self._precision, rng)

    def _draw_codes(self, values: Floats, rng: np.random.Generator) -> NDArray[np.uint8]:
        if self.levels is not None:
            return table_draws(values, self.levels, rng)
        return draw_codes(values, self._precision, rng)

    def _pieces(self, geometry: Geometry, first: int) -> Iterator[tuple[range, slice]]:
        """Groups that begin at label words and hold about `ENCODE_VALUES` values, and their rows of the table."""
        values = self._X.shape[1] * geometry.columns
        step = max(1, ENCODE_VALUES // values // LABELS_PER_WORD) * LABELS_PER_WORD
        for start in range(0, geometry.groups, step):
            groups = range(start, min(start + step, geometry.groups))
            rows = geometry.rows_of(groups)
            yield groups, slice(first + rows.start, first + rows.stop)
