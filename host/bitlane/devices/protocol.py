"""What the driver needs of a device: 32-bit registers, and memory that host and device share."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Buffer(Protocol):
    """Memory with a copy on the host and one on the device, equal after `Device.flush` or `Device.invalidate`."""

    @property
    def array(self) -> NDArray[np.uint64]:
        """The copy of the host: uint64 ``[nbytes / 8]``, rounded up."""

    @property
    def device_address(self) -> int:
        """Its address on the device, in bytes; a multiple of 4096."""

    def free(self) -> None:
        """Free the memory. A second call does nothing."""


@runtime_checkable
class Device(Protocol):
    """An accelerator, in hardware or simulated. The driver uses nothing else of it.

    On a simulated device time passes when STATUS is read, some thousands of cycles for each read.
    """

    @property
    def name(self) -> str:
        """Short name for reports."""

    @property
    def capacity_bytes(self) -> int:
        """Bytes that all buffers together may take, each rounded up to 4096. Each port has an equal part of them."""

    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset."""

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset."""

    def allocate(self, nbytes: int, port: int = 0) -> Buffer:
        """Return a new buffer in the memory of a port. Raise DeviceError if there is no room."""

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the device."""

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the device to the host."""

    def wait(self, cycles: int) -> None:
        """Sleep until this many clock cycles after the start of the run, or until its interrupt if that is earlier."""

    def close(self) -> None:
        """Close the device. It must not be used afterwards."""
