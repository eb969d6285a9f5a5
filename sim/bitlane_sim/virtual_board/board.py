"""The simulated board as pynq sees it: a `pynq.Device` in front of the Verilated accelerator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pynq
from pynq.buffer import PynqBuffer
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

from bitlane.contract.registers import CONTROL_START, REGISTERS
from bitlane_sim.implementation.bitstream.hwh import RANGE
from bitlane_sim.rtl.device import RtlBuffer, RtlDevice

from .boards import Kind, config_in
from .intc import InterruptController

CONTROL = REGISTERS["control"].offset
PROCESSOR = 0xF000_0000  # addresses from here on are the processor's own


class SimulatedBuffer(PynqBuffer):
    """pynq's buffer over the host's side of an `RtlBuffer`."""

    freed = True  # of views; the buffer itself is not

    def freebuffer(self) -> None:
        """Gives the memory back, once."""
        if not self.freed:
            self.freed = True
            self.device.give_back(self.bo)


class Hardware:
    """What is on the board: registers on a bus, memory, and time that passes as it does for the host.

    While a run goes on, the accelerator has had as many cycles as its clock has ticked since the start on the host's
    clock, not counting the seconds in which the host only waited for the simulator. So the host sees what it would
    see on a board: sleeping costs simulated cycles, and a register read in the middle of a run finds it there.

    Parameters
    ----------
    kind: of board.
    capacity_bytes: of the memory for buffers.
    """

    def __init__(self, kind: Kind, capacity_bytes: int = 32 << 20):
        self.kind = kind
        self.capacity_bytes = capacity_bytes
        self.rtl: RtlDevice | None = None
        self.intc = InterruptController(lambda: self.rtl is not None and self.rtl.irq)
        self.accesses: list[tuple[str, int]] = []
        self.seconds = 0.0  # in the simulator
        self._processor = dict(kind.clocks)
        self._hertz = 0.0
        self._started: float | None = None
        self._cycles = 0

    def load(self, bitstream: bytes, clock_mhz: float) -> None:
        """Puts a bitstream into the fabric; what was there is gone."""
        config = config_in(bitstream)
        if self.rtl is not None:
            self.rtl.close()
        self._started = None
        self._hertz = clock_mhz * 1e6
        self.rtl = RtlDevice(config, self.capacity_bytes)

    def read(self, address: int) -> int:
        """A 32-bit word on the processor's bus."""
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
        """Write a 32-bit word on the processor's bus."""
        if address >= PROCESSOR:
            self._processor[address] = value
        elif self._in_intc(address):
            self.intc.write(address - self.kind.system.controller, value)
        else:
            offset = self._offset(address)
            self.accesses.append(("write", offset))
            self.catch_up()
            assert self.rtl is not None
            self.rtl.write(offset, value)
            if offset == CONTROL and value & CONTROL_START:
                self._started, self._cycles = time.monotonic() - self.seconds, 0

    def catch_up(self) -> None:
        """Lets the accelerator have the cycles that the host's clock says it has had."""
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

    def _in_intc(self, address: int) -> bool:
        return 0 <= address - self.kind.system.controller < RANGE

    def _offset(self, address: int) -> int:
        offset = address - self.kind.system.base
        if not 0 <= offset < RANGE or self.rtl is None:
            raise RuntimeError(f"bus error at {address:#x}")
        return offset


class SimulatedBoard(pynq.Device):
    """A board with pynq running on it. Flush and invalidate copy, so that a missing one gives wrong results.

    Parameters
    ----------
    hardware: see there.
    tag: pynq's name for the device, unique in the process.
    """

    def __init__(self, hardware: Hardware, tag: str = "simulated0"):
        super().__init__(tag)
        self.hardware = hardware
        self.name = hardware.kind.name
        self.arch = hardware.kind.arch
        self.capabilities = {"REGISTER_RW": True}
        self.timestamp, self.bitfile_name = "", None  # pynq asks for both before anything is loaded
        self._buffers: dict[int, RtlBuffer] = {}

    # --- registers
    def read_registers(self, address: int, length: int) -> bytes:
        """Whole words."""
        words = (self.hardware.read(address + i) for i in range(0, length, 4))
        return b"".join(word.to_bytes(4, "little") for word in words)

    def write_registers(self, address: int, data: bytes) -> None:
        """Whole words."""
        for i in range(0, len(data), 4):
            self.hardware.write(address + i, int.from_bytes(data[i : i + 4], "little"))

    # --- memory
    @property
    def live_buffers(self) -> int:
        """Buffers not given back."""
        return len(self._buffers)

    def allocate(self, shape: Any, dtype: Any, **_: Any) -> SimulatedBuffer:
        """Contiguous memory; RuntimeError where there is none left, as on a board."""
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
        """Frees a buffer; of an overlay that is gone, nothing."""
        self._buffers.pop(bo).free()

    def flush(self, bo: int, offset: int, virtual_address: int, nbytes: int) -> None:
        """What the host wrote goes to the memory: of whole buffers, as XRT does it rightly for these alone."""
        memory = self._whole(bo, offset, nbytes)
        assert self.hardware.rtl is not None
        self.hardware.rtl.flush(memory)

    def invalidate(self, bo: int, offset: int, virtual_address: int, nbytes: int) -> None:
        """What the memory holds goes to the host, likewise."""
        memory = self._whole(bo, offset, nbytes)
        self.hardware.catch_up()
        assert self.hardware.rtl is not None
        self.hardware.rtl.invalidate(memory)

    def _whole(self, bo: int, offset: int, nbytes: int) -> RtlBuffer:
        memory = self._buffers[bo]
        if offset or nbytes != memory.array.nbytes:
            raise RuntimeError("a part of a buffer was flushed or invalidated")
        return memory

    # --- overlays
    def get_bitfile_metadata(self, bitfile_name: str, partial: bool = False) -> Any:
        return RuntimeMetadataParser(Metadata(input=Path(bitfile_name).with_suffix(".hwh")))

    def download(self, bitstream: Any, parser: Any = None) -> None:
        self.hardware.load(Path(bitstream.bitfile_name).read_bytes(), pynq.Clocks.fclk0_mhz)
        self.post_download(bitstream, parser, self.name)
