"""The launches of a training: the rows and epochs of each, and its samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.state import ModelState
from bitlane.driver.job import Job, JobResult
from bitlane.errors import DataError
from bitlane.levels.codebooks import Codebook

from .plan import ExecutionPlan
from .samples import SampleEncoder


@dataclass(frozen=True)
class Launch:
    """One start of the accelerator.

    Attributes
    ----------
    geometry : Geometry
        Shape of its rows.
    base_regions, draw_regions : list of uint64 arrays
        Encoded samples.
    epochs : int
    covers_all_rows : bool
        Otherwise it runs one epoch over some rows.
    ends_epoch : bool
        Whether its last row is the last of an epoch.
    levels : Codebook or None
    encoding_cycles : int
        Clock cycles of the device's encoder before it, 0 if the host encoded.
    """

    geometry: Geometry
    base_regions: list[Words]
    draw_regions: list[Words]
    epochs: int
    covers_all_rows: bool
    ends_epoch: bool
    levels: Codebook | None = None
    encoding_cycles: int = 0

    def job(self, plan: ExecutionPlan, state: ModelState) -> Job:
        """Return the job that continues from `state`. Steps decay only at the end of an epoch.

        Raises
        ------
        DataError
            Staleness with some of the rows: the first batches of a launch would read weights that are too new.
        """
        settings = state.settings
        if settings.staleness and not self.covers_all_rows:
            raise DataError(
                f"staleness={settings.staleness} needs all rows in the {plan.capacity} bytes of the device: lower "
                "bits, or use staleness=0"
            )
        return Job(
            geometry=self.geometry,
            base_regions=self.base_regions,
            draw_regions=self.draw_regions,
            state=state if self.ends_epoch else replace(state, settings=replace(settings, decay=NO_DECAY)),
            epochs=self.epochs,
            snapshots=plan.snapshots and self.covers_all_rows,
            levels=self.levels,
        )

    @staticmethod
    def next_state(state: ModelState, result: JobResult) -> ModelState:
        """Return the state after a launch that began in `state`, with the decay of the training."""
        after = result.state
        return replace(after, settings=replace(after.settings, decay=state.settings.decay))


def launches(plan: ExecutionPlan, encoder: SampleEncoder) -> Iterator[Launch]:
    """Yield all launches of a training in order, each encoded when it is asked for."""
    if plan.launch_epochs:
        return _launches_of_epochs(plan, encoder)
    return _launches_of_rows(plan, encoder)


def _launches_of_epochs(plan: ExecutionPlan, encoder: SampleEncoder) -> Iterator[Launch]:
    geometry = plan.geometry
    shared = [encoder.base(geometry, 0)] if plan.shared_base else None
    for first in range(plan.first_epoch, plan.epochs, plan.launch_epochs):
        epochs = min(plan.launch_epochs, plan.epochs - first)
        sets = plan.launch_sets(first)
        base = shared or [encoder.base(geometry, 0, k) for k in sets]
        draws = encoder.draws(geometry, 0, sets) if geometry.draws else []
        yield Launch(geometry, base, draws, epochs, covers_all_rows=True, ends_epoch=True, levels=encoder.levels)


def _launches_of_rows(plan: ExecutionPlan, encoder: SampleEncoder) -> Iterator[Launch]:
    rows = plan.geometry.rows
    for epoch in range(plan.first_epoch, plan.epochs):
        number = epoch % plan.draw_sets
        for first in range(0, rows, plan.launch_rows):
            geometry = replace(plan.geometry, rows=min(plan.launch_rows, rows - first))
            draws = encoder.draws(geometry, first, [number]) if geometry.draws else []
            base = [encoder.base(geometry, first, number)]
            ends = first + geometry.rows == rows
            yield Launch(geometry, base, draws, 1, covers_all_rows=False, ends_epoch=ends, levels=encoder.levels)
