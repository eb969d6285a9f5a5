"""The records that a run writes after each epoch, read while it is running."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.devices.protocol import Buffer, Device

EMPTY = 1 << 63  # words of a record that is not written yet: no count of cycles and no loss has this value

OnEpoch = Callable[[int, NDArray[np.int64]], None]


class EpochTrace:
    """The records of the epochs of a run, in a buffer of the device. It marks all of them as empty.

    Parameters
    ----------
    device : Device
    buffer : Buffer
        ``epochs * geometry.record_words`` words.
    geometry : Geometry
        Shape of an epoch.
    on_epoch : callable or None
        Called as ``on_epoch(epoch, losses)``: the number of each epoch, from 0, and its losses, int64 ``[outputs]``.
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
        """Whether there is a callback."""
        return self._on_epoch is not None

    def records(self) -> NDArray[np.int64]:
        """Return cycles and losses of all epochs: int64 ``[epochs, 1 + outputs]``."""
        self._device.invalidate(self.buffer)
        words = self.buffer.array.view(np.int64).reshape(-1, self._geometry.record_words)
        records: NDArray[np.int64] = words[:, : 1 + self._geometry.outputs].copy()
        return records

    def update(self) -> None:
        """Call the callback for each epoch that has ended since the last call."""
        if self._on_epoch is None:
            return
        for record in self.records()[self._reported :]:
            if (record.view(np.uint64) == EMPTY).any():
                break
            self._on_epoch(self._reported, record[1:])
            self._reported += 1
