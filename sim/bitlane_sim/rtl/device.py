"""The Verilated RTL as a device of the host's driver, with exact cycles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.registers import REGISTERS, STATUS_BUSY
from bitlane.devices.protocol import Buffer
from bitlane.errors import DeviceError

from .allocator import FreeList
from .build import build
from .harness import Counters, Disturbance, Harness

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

BASE_ADDRESS = 0x1000_0000  # of the memory: never 0, so that an address that was not set is caught
# Cycles that a poll of a busy device lets pass: each is a quarter longer than the one before, so that a run
# without irq costs at most about a quarter more than its own cycles.
FIRST_POLL = 1 << 10
LAST_POLL = 1 << 18
_STATUS = REGISTERS["status"].offset


class RtlBuffer:
    """Words of the device's memory, and the host's own copy: they meet in `flush` and `invalidate` only.

    Members
    -------
    array: (words,) uint64, the host's copy; zeros at first. What the device holds at first is undefined.
    device_address: of its first word, in bytes; a multiple of 4096.
    """

    def __init__(self, device: RtlDevice, device_address: int, words: int):
        self._device = device
        self.device_address = device_address
        self.array: npt.NDArray[np.uint64] = np.zeros(words, np.uint64)

    def free(self) -> None:
        """Give the device's memory back; a second time does nothing. The host's copy stays readable."""
        self._device.free(self)


class RtlDevice:
    """The accelerator's RTL, translated to C++, with a memory on its port.

    Parameters
    ----------
    config: sizes of the accelerator; the default configuration when None.
    capacity_bytes: of the device's memory; a multiple of 4096. Pages never touched cost nothing.
    timing: of the memory; MemoryTiming() when None.
    disturbance: stalls, limits and errors of the buses; none when None.
    library: a simulator that `build` made; when None it is built, once for each configuration.

    A read of the status register while the device is busy first lets simulated time pass: until irq rises, or
    a number of cycles that grows from one such read to the next. Any other access takes the cycles of its bus
    transfers. Raises DeviceError where a tool for building is missing; every method raises ProtocolError, a
    DeviceError, when the RTL breaks a rule of its buses. For one thread at a time.
    """

    name = "rtl"
    unmapped_address = 0  # outside the memory: an access ends the run with an error

    def __init__(
        self,
        config: AcceleratorConfig | None = None,
        capacity_bytes: int = 128 << 20,
        timing: MemoryTiming | None = None,
        disturbance: Disturbance | None = None,
        library: Path | None = None,
    ):
        self.capacity_bytes = capacity_bytes
        self._free_list = FreeList(BASE_ADDRESS, capacity_bytes)
        self._memory: npt.NDArray[np.uint64] = np.zeros(capacity_bytes // WORD_BYTES, np.uint64)
        self._buffers: dict[int, RtlBuffer] = {}
        self._harness = Harness(
            library or build(config), self._memory, BASE_ADDRESS, timing or MemoryTiming(), disturbance
        )
        self._poll = FIRST_POLL

    # --- registers
    def read(self, offset: int) -> int:
        """A 32-bit register."""
        value = self._harness.read(offset)
        if offset == _STATUS and value & STATUS_BUSY:
            self._harness.run(self._poll)
            value = self._harness.read(offset)
            self._poll = min(self._poll * 5 // 4, LAST_POLL) if value & STATUS_BUSY else FIRST_POLL
        return value

    def write(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""
        self._harness.write(offset, value)

    # --- memory
    def allocate(self, nbytes: int) -> RtlBuffer:
        """A buffer of at least `nbytes` bytes, whole words. DeviceError when there is no room."""
        if nbytes < 0:
            raise ValueError(f"nbytes={nbytes} must not be negative")
        buffer = RtlBuffer(self, self._free_list.take(nbytes), -(-nbytes // WORD_BYTES))
        self._buffers[buffer.device_address] = buffer
        return buffer

    def flush(self, buffer: Buffer) -> None:
        """Copy the host's words to the device."""
        self._words(buffer)[:] = buffer.array

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the device's words to the host."""
        buffer.array[:] = self._words(buffer)

    def free(self, buffer: RtlBuffer) -> None:
        """What `RtlBuffer.free` does."""
        if self._buffers.get(buffer.device_address) is buffer:
            del self._buffers[buffer.device_address]
            self._free_list.give(buffer.device_address)

    @property
    def free_bytes(self) -> int:
        """What is left of the device's memory."""
        return self._free_list.free_bytes

    # --- the simulator
    @property
    def irq(self) -> bool:
        """The interrupt line, now."""
        return self._harness.irq

    @property
    def counters(self) -> Counters:
        """Cycles and transfers since the device was made."""
        return self._harness.counters

    def wait(self, cycles: int) -> None:
        """Returns at once: time passes when STATUS is read."""

    def run(self, cycles: int) -> int:
        """Let time pass until irq is high, at most `cycles`; returns the cycles that passed."""
        return self._harness.run(cycles)

    def reset(self, cycles: int = 4) -> None:
        """Pull the reset line; buffers and memory stay."""
        self._harness.reset(cycles)
        self._poll = FIRST_POLL

    def disturb(self, disturbance: Disturbance) -> None:
        """Another disturbance from here on; its burst and beat numbers count from here."""
        self._harness.disturb(disturbance)

    def close(self) -> None:
        """Give everything back; a second time does nothing."""
        self._harness.close()
        self._buffers.clear()

    def __enter__(self) -> RtlDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _words(self, buffer: Buffer) -> npt.NDArray[np.uint64]:
        if self._buffers.get(buffer.device_address) is not buffer:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or is another device's")
        first = (buffer.device_address - BASE_ADDRESS) // WORD_BYTES
        return self._memory[first : first + buffer.array.size]
