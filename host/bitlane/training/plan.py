"""How a training is cut so that each launch fits the memory of the device."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import MAX_ROWS
from bitlane.driver.job import job_bytes
from bitlane.errors import DataError


@dataclass(frozen=True)
class ExecutionPlan:
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
    draw_sets: int
    shared_base: bool
    snapshots: bool
    capacity: int
    first_epoch: int = 0

    def bytes_needed(self, geometry: Geometry, epochs: int, snapshots: bool) -> int:
        """Bytes of a start."""
        sets = min(self.draw_sets, epochs)
        return job_bytes(geometry, epochs, 1 if self.shared_base else sets, sets, snapshots)

    @cached_property
    def launch_epochs(self) -> int:
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
        return bool(self._epochs_in(half) if self.launch_epochs else self._batches_in(half))

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
