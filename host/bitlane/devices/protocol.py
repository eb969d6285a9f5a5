"""What the driver needs of a device: 32-bit registers, and memory that both sides can reach."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Buffer(Protocol):
    """Memory with two sides: the host's array and the device's copy, equal after a flush or an invalidate."""

    @property
    def array(self) -> NDArray[np.uint64]:
        """The host's side: uint64 [nbytes / 8], rounded up."""

    @property
    def device_address(self) -> int:
        """Where the device sees it, in bytes; a multiple of 4096."""

    def free(self) -> None:
        """Gives the memory back; a second call does nothing."""


@runtime_checkable
class Device(Protocol):
    """An accelerator, whatever it is made of. The driver, `bitlane.driver.driver`, knows nothing else of it.

    On a simulated device that nobody waits for, time passes when STATUS is read, some thousands of cycles a read.
    """

    @property
    def name(self) -> str:
        """Short, for reports."""

    @property
    def capacity_bytes(self) -> int:
        """Bytes that buffers may take together, each rounded up to 4096."""

    def read(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""

    def write(self, offset: int, value: int) -> None:
        """Writes the 32-bit register at a byte offset."""

    def allocate(self, nbytes: int) -> Buffer:
        """A new buffer; DeviceError where there is no room."""

    def flush(self, buffer: Buffer) -> None:
        """Makes what the host wrote visible to the device."""

    def invalidate(self, buffer: Buffer) -> None:
        """Makes what the device wrote visible to the host."""

    def wait(self, cycles: int) -> None:
        """Sleeps until so many clock cycles after the start of the run, or until its interrupt where that is sooner."""

    def close(self) -> None:
        """Lets go of the device; it must not be used afterwards."""
