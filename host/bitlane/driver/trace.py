"""What a run leaves an epoch, read while it is written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.devices.protocol import Buffer, Device

EMPTY = 1 << 63  # in the words of a record that is not written yet: no count of cycles, and no loss

OnEpoch = Callable[[int, NDArray[np.int64]], None]


class EpochTrace:
    """The records of a run's epochs in a buffer of the device, empty at first.

    Parameters
    ----------
    device: whose buffer it is.
    buffer: (epochs * geometry.record_words,) words.
    geometry: of an epoch.
    on_epoch: called with the number of each epoch, from 0, and its losses, int64 [outputs]; None for nobody.
    """

    def __init__(self, device: Device, buffer: Buffer, geometry: Geometry, on_epoch: OnEpoch | None):
        self._device = device
        self.buffer = buffer
        self._geometry = geometry
        self._on_epoch = on_epoch
        self._reported = 0
        buffer.array[:] = EMPTY
        device.flush(buffer)

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self._on_epoch is not None

    def records(self) -> NDArray[np.int64]:
        """int64 [epochs, 1 + outputs]: cycles and losses."""
        self._device.invalidate(self.buffer)
        words = self.buffer.array.view(np.int64).reshape(-1, self._geometry.record_words)
        records: NDArray[np.int64] = words[:, : 1 + self._geometry.outputs].copy()
        return records

    def update(self) -> None:
        """Calls back for the epochs that ended since the last call."""
        if self._on_epoch is None:
            return
        for record in self.records()[self._reported :]:
            if (record.view(np.uint64) == EMPTY).any():
                break
            self._on_epoch(self._reported, record[1:])
            self._reported += 1
