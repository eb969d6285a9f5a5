"""Which rows and epochs go into which start of the accelerator, and the words that each start is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.settings import Settings
from bitlane.driver.job import Job, JobResult
from bitlane.errors import DataError
from bitlane.levels.codebooks import Codebook

from .plan import ExecutionPlan
from .samples import SampleEncoder


@dataclass(frozen=True)
class ModelState:
    """What one start hands to the next: master weights int32 [outputs, n], and the registers."""

    master: NDArray[np.int32]
    settings: Settings

    def after(self, outcome: JobResult) -> ModelState:
        """The state that a start left; what a start is told of the decay does not stay."""
        return ModelState(outcome.master, replace(outcome.settings, decay=self.settings.decay))


@dataclass(frozen=True)
class Launch:
    """One start: its data, the epochs it runs, and its place among the others."""

    geometry: Geometry
    base_regions: list[Words]
    draw_regions: list[Words]
    epochs: int
    covers_all_rows: bool  # over all rows; otherwise one epoch over some
    ends_epoch: bool
    levels: Codebook | None = None

    def job(self, plan: ExecutionPlan, state: ModelState) -> Job:
        """The job that goes on from `state`. Only what ends an epoch decays.

        DataError for a part of an epoch with staleness: its first batches would read a model too new.
        """
        settings = state.settings
        if settings.staleness and not self.covers_all_rows:
            raise DataError(
                f"with staleness={settings.staleness} all rows must fit the {plan.capacity} bytes of the device: "
                "lower bits, or use staleness=0"
            )
        return Job(
            geometry=self.geometry,
            base_regions=self.base_regions,
            draw_regions=self.draw_regions,
            master=state.master,
            epochs=self.epochs,
            settings=settings if self.ends_epoch else replace(settings, decay=NO_DECAY),
            snapshots=plan.snapshots and self.covers_all_rows,
            levels=self.levels,
        )


def launches(plan: ExecutionPlan, samples: SampleEncoder) -> Iterator[Launch]:
    """All starts of a run, in order, each encoded when its turn comes."""
    if plan.launch_epochs:
        return _starts_of_epochs(plan, samples)
    return _starts_of_rows(plan, samples)


def _starts_of_epochs(plan: ExecutionPlan, samples: SampleEncoder) -> Iterator[Launch]:
    geometry = plan.geometry
    shared = [samples.base(geometry, 0, None)] if plan.shared_base else None
    for first in range(plan.first_epoch, plan.epochs, plan.launch_epochs):
        epochs = min(plan.launch_epochs, plan.epochs - first)
        sets = [(first + i) % plan.draw_sets for i in range(min(plan.draw_sets, epochs))]
        base = shared or [samples.base(geometry, 0, samples.set_generator(k)) for k in sets]
        draws = [samples.draws(geometry, 0, samples.set_generator(k)) for k in sets] if geometry.draws else []
        yield Launch(geometry, base, draws, epochs, covers_all_rows=True, ends_epoch=True, levels=samples.levels)


def _starts_of_rows(plan: ExecutionPlan, samples: SampleEncoder) -> Iterator[Launch]:
    rows = plan.geometry.rows
    for epoch in range(plan.first_epoch, plan.epochs):
        rng = samples.set_generator(epoch % plan.draw_sets)
        for first in range(0, rows, plan.part_rows):
            geometry = replace(plan.geometry, rows=min(plan.part_rows, rows - first))
            draws = [samples.draws(geometry, first, rng)] if geometry.draws else []
            base = [samples.base(geometry, first, rng)]
            ends = first + geometry.rows == rows
            yield Launch(geometry, base, draws, 1, covers_all_rows=False, ends_epoch=ends, levels=samples.levels)
