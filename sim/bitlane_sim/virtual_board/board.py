"""The simulated board for pynq: a `pynq.Device` in front of the Verilated accelerator."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pynq
from pynq.buffer import PynqBuffer
from pynq.pl_server import global_state
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

from bitlane.contract.registers import CONTROL_ENCODE, CONTROL_START, REGISTERS, STATUS_BUSY
from bitlane_hw.export.hwh import RANGE
from bitlane_sim.rtl.device import RtlBuffer, RtlDevice

from .boards import BoardKind, config_in

CONTROL, STATUS = (REGISTERS[name].offset for name in ("control", "status"))
BEGIN = CONTROL_START | CONTROL_ENCODE
PROCESSOR = 0xF000_0000  # addresses from here on belong to the processor
# Registers of the interrupt controller (AMD PG099).
ISR, IPR, IER, IAR, SIE, CIE, MER = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x1C


class InterruptController:
    """The AXI interrupt controller that pynq uses (AMD PG099), level-sensitive, for one interrupt line.

    Parameters
    ----------
    line : callable
        `line()` returns whether the interrupt is high.
    """

    def __init__(self, line: Callable[[], bool]):
        self._line = line
        self._enabled = 0

    @property
    def output(self) -> bool:
        """Level of its interrupt to the processor."""
        return bool(self.read(IPR))

    def read(self, offset: int) -> int:
        """Read a register."""
        if offset in (ISR, IPR):
            return int(self._line()) & (self._enabled if offset == IPR else 1)
        return self._enabled if offset == IER else 0

    def write(self, offset: int, value: int) -> None:
        """Write a register. To acknowledge a level that is still high has no effect."""
        if offset == IER:
            self._enabled = value
        elif offset == SIE:
            self._enabled |= value
        elif offset == CIE:
            self._enabled &= ~value


class SimulatedBuffer(PynqBuffer):
    """pynq's buffer over the host's copy of an `RtlBuffer`."""

    freed = True  # for views; the buffer itself sets False

    def freebuffer(self) -> None:
        """Free the memory; a second call does nothing."""
        if not self.freed:
            self.freed = True
            self.device.give_back(self.bo)


class Hardware:
    """The hardware of a board: registers on a bus, memory, and a clock that follows the time of the host.

    During a run, the accelerator has executed as many cycles as its clock makes in the host's time since the start,
    without the seconds that the simulator took. The host therefore sees the same as on a board: simulated cycles pass
    while it sleeps, and a register read in the middle of a run shows that state.

    Parameters
    ----------
    kind : BoardKind
        The board.
    capacity_bytes : int
        Size of the memory for buffers.

    Attributes
    ----------
    rtl : RtlDevice or None
        The loaded accelerator.
    accesses : list of (str, int)
        "read" or "write" and the offset, for each register access of the accelerator.
    seconds : float
        Time spent in the simulator.
    """

    def __init__(self, kind: BoardKind, capacity_bytes: int = 32 << 20):
        self.kind = kind
        self.capacity_bytes = capacity_bytes
        self.rtl: RtlDevice | None = None
        self.intc = InterruptController(lambda: self.rtl is not None and self.rtl.irq)
        self.accesses: list[tuple[str, int]] = []
        self.seconds = 0.0  # in the simulator
        self._processor = dict(kind.processor)
        self._hertz = 0.0
        self._started: float | None = None
        self._cycles = 0

    def load(self, bitstream: bytes, clock_mhz: float) -> None:
        """Load a bitstream into the fabric, which replaces the earlier one.

        Raises RuntimeError within a run: its last burst would stay in the memory port, and take the data of the next
        run.
        """
        config = config_in(bitstream)
        if self.rtl is not None:
            self.catch_up()
            if self.rtl.read(STATUS) & STATUS_BUSY:
                raise RuntimeError("a bitstream is loaded within a run")
            self.rtl.close()
        self._started = None
        self._hertz = clock_mhz * 1e6
        self.rtl = RtlDevice(config, self.capacity_bytes)

    def read(self, address: int) -> int:
        """Read a 32-bit word on the bus of the processor."""
        if address >= PROCESSOR:
            return self._processor.get(address, 0)
        if self._in_intc(address):
            self.catch_up()
            return self.intc.read(address - self.kind.system.controller)
        offset = self._offset(address)
        self.accesses.append(("read", offset))
        self.catch_up()
        assert self.rtl is not None
        return self.rtl.read(offset)

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit word on the bus of the processor."""
        if address >= PROCESSOR:
            self._processor[address] = value
        elif self._in_intc(address):
            self.intc.write(address - self.kind.system.controller, value)
        else:
            offset = self._offset(address)
            self.accesses.append(("write", offset))
            self.catch_up()
            assert self.rtl is not None
            if offset == CONTROL and value & BEGIN and self.narrow_ports():
                raise RuntimeError(f"memory ports {self.narrow_ports()} are 32 bits wide")
            self.rtl.write(offset, value)
            if offset == CONTROL and value & BEGIN:
                self._started, self._cycles = time.monotonic() - self.seconds, 0

    def catch_up(self) -> None:
        """Run the accelerator for the cycles that its clock makes until now."""
        if self._started is None or self.rtl is None:
            return
        begin = time.monotonic()
        due = int((begin - self.seconds - self._started) * self._hertz)
        if due > self._cycles:
            self.rtl.run(due - self._cycles)
            self._cycles = due
            if self.rtl.irq:
                self._started = None
        self.seconds += time.monotonic() - begin

    def narrow_ports(self) -> list[int]:
        """Return the numbers of the accelerator's memory ports of which a channel is 32 bits wide; Zynq-7000 only."""
        return [
            port
            for port in self.kind.system.memory_ports[: self.kind.config.width // 64]
            if any(self._processor[0xF800_8000 + 0x1000 * port + channel] & 1 for channel in (0x00, 0x14))
        ]

    def _in_intc(self, address: int) -> bool:
        return 0 <= address - self.kind.system.controller < RANGE

    def _offset(self, address: int) -> int:
        offset = address - self.kind.system.base
        if not 0 <= offset < RANGE or self.rtl is None:
            raise RuntimeError(f"bus error at {address:#x}")
        return offset


class SimulatedBoard(pynq.Device):
    """A board that runs pynq. Flush and invalidate copy data: a missing call gives wrong results.

    Parameters
    ----------
    hardware : Hardware
        The hardware of the board.
    tag : str
        Name of the device in pynq, unique in the process.
    """

    def __init__(self, hardware: Hardware, tag: str = "simulated0"):
        super().__init__(tag)
        self.hardware = hardware
        self.name = hardware.kind.name
        self.arch = hardware.kind.arch
        self.capabilities = {"REGISTER_RW": True}
        self.timestamp, self.bitfile_name = "", None  # pynq reads both before an overlay is loaded
        self._buffers: dict[int, RtlBuffer] = {}

    # --- registers
    def read_registers(self, address: int, length: int) -> bytes:
        """Read complete words."""
        words = (self.hardware.read(address + i) for i in range(0, length, 4))
        return b"".join(word.to_bytes(4, "little") for word in words)

    def write_registers(self, address: int, data: bytes) -> None:
        """Write complete words."""
        for i in range(0, len(data), 4):
            self.hardware.write(address + i, int.from_bytes(data[i : i + 4], "little"))

    # --- memory
    @property
    def live_buffers(self) -> int:
        """Number of buffers that are not freed."""
        return len(self._buffers)

    def allocate(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike, **_: Any) -> SimulatedBuffer:
        """Allocate contiguous memory. Raises RuntimeError if the memory is full, as on a board."""
        dtype = np.dtype(dtype)
        assert self.hardware.rtl is not None
        try:
            memory = self.hardware.rtl.allocate(int(np.prod(shape)) * dtype.itemsize)
        except Exception as error:
            raise RuntimeError("Failed to allocate Memory!") from error
        self._buffers[memory.device_address] = memory
        address = memory.device_address
        return SimulatedBuffer(
            shape, dtype, buffer=memory.array.data, device=self, device_address=address, bo=address, coherent=False
        )

    def give_back(self, bo: int) -> None:
        """Free a buffer; for a replaced overlay this does nothing."""
        self._buffers.pop(bo).free()

    def flush(self, bo: int, offset: int, virtual_address: int, nbytes: int) -> None:
        """Copy the host's data to the memory, for complete buffers only: XRT is correct only for these."""
        memory = self._complete_buffer(bo, offset, nbytes)
        assert self.hardware.rtl is not None
        self.hardware.rtl.flush(memory)

    def invalidate(self, bo: int, offset: int, virtual_address: int, nbytes: int) -> None:
        """Copy the memory to the host, for complete buffers only."""
        memory = self._complete_buffer(bo, offset, nbytes)
        self.hardware.catch_up()
        assert self.hardware.rtl is not None
        self.hardware.rtl.invalidate(memory)

    def _complete_buffer(self, bo: int, offset: int, nbytes: int) -> RtlBuffer:
        memory = self._buffers[bo]
        if offset or nbytes != memory.array.nbytes:
            raise RuntimeError("only complete buffers can be flushed or invalidated")
        return memory

    # --- overlays
    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        return RuntimeMetadataParser(Metadata(input=Path(bitfile_name).with_suffix(".hwh")))

    def download(self, bitstream: pynq.Bitstream, parser: Any = None) -> None:
        """Record what is loaded, as pynq's own devices do, and load it."""
        path = bitstream.bitfile_name
        global_state.save_global_state(
            global_state.GlobalState(
                bitfile_name=str(path),
                active_name=self.name,
                timestamp="",
                bitfile_hash=global_state.bitstream_hash(path),
            )
        )
        self.hardware.load(Path(bitstream.bitfile_name).read_bytes(), pynq.Clocks.fclk0_mhz)
        self.post_download(bitstream, parser, self.name)
