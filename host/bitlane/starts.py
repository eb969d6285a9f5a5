"""Which rows and epochs go into which start of the accelerator, and the words that each start is given."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .accelerator import Job, job_bytes
from .contract import LABELS_PER_WORD, MAX_ROWS
from .errors import DataError
from .fixed import NO_DECAY
from .layout import Geometry, Words, pack_base, pack_draws
from .quantize import Precision, base_codes, draw_codes
from .scaling import Scaling, Table

ENCODE_VALUES = 1 << 18  # values scaled and quantized at a time


@dataclass(frozen=True)
class State:
    """What one start hands to the next, and the two registers that stay."""

    master: NDArray[np.int32]
    step: int
    rate: int
    phase: int
    shrink: int
    decay: int


@dataclass(frozen=True)
class Plan:
    """How a run is cut so that each start fits the memory of the device."""

    geometry: Geometry
    epochs: int
    batch: int
    sets: int
    shared_base: bool  # one base region serves all sets
    snapshots: bool
    capacity: int

    def bytes_needed(self, geometry: Geometry, epochs: int, snapshots: bool) -> int:
        """Bytes of a start."""
        sets = min(self.sets, epochs)
        return job_bytes(geometry, epochs, 1 if self.shared_base else sets, sets, snapshots)

    @cached_property
    def start_epochs(self) -> int:
        """Epochs a start over all rows, 0 where not even one fits."""
        if self.geometry.rows > MAX_ROWS:
            return 0
        return bisect_right(
            range(1, self.epochs + 1),
            self.capacity,
            key=lambda epochs: self.bytes_needed(self.geometry, epochs, self.snapshots),
        )

    @cached_property
    def part_rows(self) -> int:
        """Rows a start where not all fit: a multiple of the batch. DataError where not even a batch fits."""
        batches = bisect_right(
            range(1, min(MAX_ROWS, self.geometry.rows) // self.batch + 1),
            self.capacity,
            key=lambda batches: self.bytes_needed(replace(self.geometry, rows=batches * self.batch), 1, False),
        )
        if not batches:
            raise DataError(
                f"a batch of {self.batch} rows does not fit the {self.capacity} bytes of the device: "
                "lower batch_size or bits"
            )
        return batches * self.batch


@dataclass(frozen=True)
class Start:
    """One start: its data, the epochs it runs, and its place among the others."""

    geometry: Geometry
    base: list[Words]
    draws: list[Words]
    epochs: int
    whole: bool  # over all rows; otherwise one epoch over some
    ends_epoch: bool

    def job(self, plan: Plan, state: State) -> Job:
        """The job that goes on from `state`. Only what ends an epoch decays."""
        return Job(
            geometry=self.geometry,
            base=self.base,
            draws=self.draws,
            master=state.master,
            epochs=self.epochs,
            batch=plan.batch,
            step=state.step,
            rate=state.rate,
            decay=state.decay if self.ends_epoch else NO_DECAY,
            shrink=state.shrink,
            phase=state.phase,
            snapshots=plan.snapshots and self.whole,
        )


def starts(plan: Plan, samples: Samples) -> Iterator[Start]:
    """All starts of a run, in order, each encoded when its turn comes."""
    if plan.start_epochs:
        return _starts_of_epochs(plan, samples)
    return _starts_of_rows(plan, samples)


def _starts_of_epochs(plan: Plan, samples: Samples) -> Iterator[Start]:
    rows = slice(0, plan.geometry.rows)
    shared = [samples.base(rows, None)] if plan.shared_base else None
    for first in range(0, plan.epochs, plan.start_epochs):
        epochs = min(plan.start_epochs, plan.epochs - first)
        sets = [(first + i) % plan.sets for i in range(min(plan.sets, epochs))]
        base = shared or [samples.base(rows, samples.generator(k)) for k in sets]
        draws = [samples.draws(rows, samples.generator(k)) for k in sets] if plan.geometry.draws else []
        yield Start(plan.geometry, base, draws, epochs, whole=True, ends_epoch=True)


def _starts_of_rows(plan: Plan, samples: Samples) -> Iterator[Start]:
    for epoch in range(plan.epochs):
        rng = samples.generator(epoch % plan.sets)
        for first in range(0, plan.geometry.rows, plan.part_rows):
            rows = slice(first, min(first + plan.part_rows, plan.geometry.rows))
            geometry = replace(plan.geometry, rows=rows.stop - rows.start)
            draws = [samples.draws(rows, rng)] if geometry.draws else []
            base = [samples.base(rows, rng)]
            yield Start(geometry, base, draws, 1, whole=False, ends_epoch=rows.stop == plan.geometry.rows)


class Samples:
    """Any rows of a table as words."""

    def __init__(
        self,
        X: Table,
        y: Table,
        scaling: Scaling,
        precision: Precision,
        seed: int,
    ):
        self._X = X
        self._y = y
        self._scaling = scaling
        self._precision = precision
        self._seed = seed

    def generator(self, number: int) -> np.random.Generator:
        """The randomness of a set, whatever else is drawn."""
        return np.random.default_rng([self._seed, number])

    def base(self, rows: slice, rng: np.random.Generator | None) -> Words:
        """The base region of some rows; rng for naive sampling alone."""
        pieces = []
        for piece in self._pieces(rows):
            codes = base_codes(self._scaling.values(self._X[piece]), self._precision, rng)
            labels = self._scaling.labels(self._y[piece])
            pieces.append(pack_base(codes, labels, self._geometry(codes)))
        return np.concatenate(pieces)

    def draws(self, rows: slice, rng: np.random.Generator) -> Words:
        """The draw region of some rows."""
        pieces = []
        for piece in self._pieces(rows):
            codes = draw_codes(self._scaling.values(self._X[piece]), self._precision, rng)
            pieces.append(pack_draws(codes, self._geometry(codes)))
        return np.concatenate(pieces)

    def _geometry(self, codes: NDArray[np.unsignedinteger]) -> Geometry:
        return Geometry(codes.shape[1], codes.shape[0], self._precision.base_digits, self._precision.draws)

    def _pieces(self, rows: slice) -> Iterator[slice]:
        """Slices that begin at label words and hold about `ENCODE_VALUES` values."""
        step = max(1, ENCODE_VALUES // self._X.shape[1] // LABELS_PER_WORD) * LABELS_PER_WORD
        for first in range(rows.start, rows.stop, step):
            yield slice(first, min(first + step, rows.stop))
