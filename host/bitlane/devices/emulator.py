"""The emulator: the numpy reference as a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import LABELS_PER_WORD, WORD_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import Words, unpack_base, unpack_draws
from bitlane.contract.state import ModelState
from bitlane.reference.machine import EpochResult, Reference

from .configuration import Fault
from .protocol import Buffer
from .software import MEMORY_BASE, SoftwareDevice, SoftwareEngine

UNPACK_VALUES = 1 << 20  # digits unpacked at a time


class ReferenceEngine:
    """A run of the numpy reference, fed with words.

    Parameters
    ----------
    geometry : Geometry
        Shape of an epoch.
    reference : Reference
        A run of this geometry.
    """

    def __init__(self, geometry: Geometry, reference: Reference):
        self.reference = reference
        self._geometry = geometry

    def feed(self, base: Words, draws: Words | None) -> None:
        """Unpack the rows of an epoch and process them, some at a time."""
        geometry = self._geometry
        values = geometry.features * geometry.digits * geometry.rows_per_beat
        step = max(1, UNPACK_VALUES // values // LABELS_PER_WORD) * LABELS_PER_WORD
        for first in range(0, geometry.groups, step):
            groups = range(first, min(first + step, geometry.groups))
            codes, labels = unpack_base(base[geometry.base_span(groups)], geometry, groups)
            drawn = None if draws is None else unpack_draws(draws[geometry.draw_span(groups)], geometry, groups)
            self.reference.feed(codes, drawn, labels)

    def end_epoch(self) -> EpochResult:
        """Return the result of the epoch."""
        return self.reference.end_epoch()


class EmulatorDevice(SoftwareDevice):
    """The reference as a device. Host and device have separate copies of a buffer, as on a board.

    Parameters
    ----------
    config : AcceleratorConfig, optional
        Options of the build; `AcceleratorConfig()` when None.
    capacity_bytes : int, default=128 MiB
        Size of its memory.
    """

    def __init__(self, config: AcceleratorConfig | None = None, capacity_bytes: int = 128 << 20):
        super().__init__("emulator", config or AcceleratorConfig(), capacity_bytes)
        self._memory = np.zeros(-(-capacity_bytes // WORD_BYTES), np.uint64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a memory that can be written: joblib maps large arrays from a file that can only be read."""
        self.__dict__.update(state)
        if not self._memory.flags.writeable:
            self._memory = np.array(self._memory)

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the device."""
        self._words(buffer.device_address, len(buffer.array), ErrorCode.WRITE_DECODE)[:] = buffer.array

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the device to the host."""
        buffer.array[:] = self._words(buffer.device_address, len(buffer.array), ErrorCode.READ_DECODE)

    def close(self) -> None:
        """End the run and free the memory."""
        super().close()
        self._memory = np.zeros(0, np.uint64)

    def _provide(self, address: int, words: int) -> Words:
        return np.zeros(words, np.uint64)

    def _words(self, address: int, count: int, code: ErrorCode) -> Words:
        first = (address - MEMORY_BASE) // WORD_BYTES
        if address < MEMORY_BASE or first + count > len(self._memory):
            raise Fault(code)
        return self._memory[first : first + count]

    def _begin(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None) -> SoftwareEngine:
        return ReferenceEngine(geometry, Reference(geometry, state, levels))
