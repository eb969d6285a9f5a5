"""The accelerator in machine code, on this machine's processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import Words
from bitlane.contract.state import ModelState
from bitlane.errors import DeviceError
from bitlane.machine.engine import MachineEngine
from bitlane.machine.library import run_epoch
from bitlane.support.c_library import LibraryError
from bitlane.support.memory import machine_memory

from .configuration import Fault
from .protocol import Buffer
from .software import SoftwareBuffer, SoftwareDevice, SoftwareEngine


class CpuDevice(SoftwareDevice):
    """The bits of the reference at the speed of the processor; it needs a C compiler, and builds its code once.

    Its memory is the host's: a buffer has one copy, and flushing moves nothing. An access outside the buffers ends the
    run with an error.

    Parameters
    ----------
    config : AcceleratorConfig, optional
        Options of the build; `AcceleratorConfig()` when None.
    capacity_bytes : int, optional
        Bytes that all buffers together may take. By default half of the machine's memory: samples are encoded from a
        table that is in memory too.

    Raises
    ------
    DeviceError
        The code cannot be built.
    """

    def __init__(self, config: AcceleratorConfig | None = None, capacity_bytes: int | None = None):
        try:
            run_epoch()
        except LibraryError as error:
            raise DeviceError(f"device='cpu' cannot be built: {error}") from None
        capacity = half_of_memory() if capacity_bytes is None else capacity_bytes
        super().__init__("cpu", config or AcceleratorConfig(), capacity)
        self._arrays: dict[int, Words] = {}

    def flush(self, buffer: Buffer) -> None:
        """Do nothing: the device reads the words of the host."""

    def invalidate(self, buffer: Buffer) -> None:
        """Do nothing: the device wrote the words of the host."""

    def close(self) -> None:
        """End the run and free the memory."""
        super().close()
        self._arrays.clear()

    def _provide(self, address: int, words: int) -> Words:
        array = np.zeros(self._buffers[address] // WORD_BYTES, np.uint64)
        self._arrays[address] = array
        return array[:words]

    def _free(self, buffer: SoftwareBuffer) -> None:
        super()._free(buffer)
        self._arrays.pop(buffer.device_address, None)

    def _words(self, address: int, count: int, code: ErrorCode) -> Words:
        for start, array in self._arrays.items():
            first = (address - start) // WORD_BYTES
            if first >= 0 and first + count <= len(array):
                return array[first : first + count]
        raise Fault(code)

    def _begin(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None) -> SoftwareEngine:
        return MachineEngine(geometry, state, levels)


def half_of_memory() -> int:
    """Return half of this machine's memory, in bytes."""
    return machine_memory() // 2
