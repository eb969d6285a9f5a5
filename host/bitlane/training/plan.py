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
    """Which rows and epochs each launch covers.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch over all rows.
    epochs : int
        Epochs of the training, `first_epoch` of which have run before.
    draw_sets : int
        Epoch e reads draw set ``e mod draw_sets``, counted from the first epoch of the training.
    shared_base : bool
        Whether one base region serves all draw sets.
    snapshots : bool
        Whether the weights of each epoch are stored.
    capacity : int
        Bytes of the device.
    first_epoch : int, default=0
    """

    geometry: Geometry
    epochs: int
    draw_sets: int
    shared_base: bool
    snapshots: bool
    capacity: int
    first_epoch: int = 0

    def bytes_needed(self, geometry: Geometry, epochs: int, snapshots: bool) -> int:
        """Return the bytes of a launch over this geometry."""
        sets = min(self.draw_sets, epochs)
        return job_bytes(geometry, epochs, 1 if self.shared_base else sets, sets, snapshots)

    @cached_property
    def launch_epochs(self) -> int:
        """Epochs of a launch over all rows; 0 if not even one fits.

        All epochs if they fit, otherwise as many as leave room for the samples of the next launch.
        """
        fitting = self._epochs_in(self.capacity)
        return fitting if fitting == self.epochs - self.first_epoch else self._epochs_in(self.capacity // 2) or fitting

    @cached_property
    def launch_rows(self) -> int:
        """Rows of a launch if not all rows fit: complete batches, if possible with room for those of the next launch.

        Raises
        ------
        DataError
            Not even one batch fits.
        """
        batches = self._batches_in(self.capacity // 2) or self._batches_in(self.capacity)
        if not batches:
            raise DataError(
                f"a batch of {self.geometry.batch} rows does not fit the {self.capacity} bytes of the device: "
                "lower batch_size or bits"
            )
        return batches * self.geometry.batch

    def launch_sets(self, first: int) -> list[int]:
        """Return the numbers of the draw sets of a launch over all rows whose first epoch is number `first`."""
        count = min(self.draw_sets, self.launch_epochs, self.epochs - first)
        return [(first + i) % self.draw_sets for i in range(count)]

    @property
    def double_buffered(self) -> bool:
        """Whether the samples of a launch fit beside those of the launch before it."""
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
