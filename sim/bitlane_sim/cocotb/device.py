"""The accelerator in a cocotb simulation as a device of the host's driver."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from cocotb.task import resume
from cocotb.triggers import ClockCycles, First, RisingEdge
from cocotbext.axi import AxiResp

from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.devices.protocol import Buffer
from bitlane.errors import DeviceError
from bitlane_sim.rtl.allocator import FreeList

BASE_ADDRESS = 0x1000_0000  # of the memory: not 0, so that an address that was never set is found
TIMEOUT_CYCLES = 10_000_000  # without an interrupt: a test that hangs ends


class HostMemory(Protocol):
    """Memory as the host of a testbench reaches it.

    Attributes
    ----------
    base_address, nbytes : int
        Its first address, as the accelerator sees it, and its size: multiples of 4096.
    """

    base_address: int
    nbytes: int

    async def read(self, address: int, length: int) -> bytes:
        """Return bytes."""

    async def write(self, address: int, data: bytes) -> None:
        """Change bytes."""


class BusMemory:
    """Memory of a design, such as a DRAM behind its controller, that the host reaches over its own bus; a `HostMemory`.

    Parameters
    ----------
    host : cocotbext.axi.AxiLiteMaster or AxiMaster
        Sees the memory at the addresses at which the accelerator sees it.
    base_address, nbytes : int
        As of `HostMemory`.
    """

    def __init__(self, host: Any, base_address: int, nbytes: int):
        self._host = host
        self.base_address = base_address
        self.nbytes = nbytes

    async def read(self, address: int, length: int) -> bytes:
        """Return bytes; DeviceError if the bus answers with an error."""
        return bytes(_checked(await self._host.read(address, length)).data)

    async def write(self, address: int, data: bytes) -> None:
        """Change bytes; DeviceError if the bus answers with an error."""
        _checked(await self._host.write(address, data))


def _checked(response: Any) -> Any:
    if response.resp != AxiResp.OKAY:
        raise DeviceError(f"the bus answered the host with {response.resp.name} at {response.address:#x}")
    return response


class BenchMemory:
    """The memory of a testbench, as a target of the AXI slaves of cocotbext-axi; a `HostMemory`.

    Parameters
    ----------
    base_address, nbytes : int
        Its first address and its size, multiples of 4096. An access outside is answered with SLVERR.
    """

    def __init__(self, base_address: int, nbytes: int):
        self.base_address = base_address
        self.nbytes = nbytes
        self.content = np.zeros(nbytes, np.uint8)

    async def read(self, address: int, length: int) -> bytes:
        """Return bytes."""
        return self.at(address, length).tobytes()

    async def write(self, address: int, data: bytes) -> None:
        """Change bytes."""
        self.at(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def at(self, address: int, length: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return a view of bytes; IndexError outside the memory."""
        first = address - self.base_address
        if first < 0 or first + length > len(self.content):
            raise IndexError(f"no memory at {address:#x}")
        return self.content[first : first + length]


class BenchBuffer:
    """A buffer in the memory of a `CocotbDevice`, and its copy on the host; a `Buffer`."""

    def __init__(self, device: CocotbDevice, device_address: int, words: int):
        self._device = device
        self.device_address = device_address
        self.array: Words = np.zeros(words, np.uint64)

    def free(self) -> None:
        """Free the memory; a second call does nothing."""
        self._device.free(self)


class CocotbDevice:
    """An accelerator behind bus agents of cocotbext-axi, as the `Device` that drivers and estimators take.

    Its methods block until the simulator has run the bus transfers. So call what uses it by `AcceleratorBench.call`.

    Parameters
    ----------
    dut : cocotb handle
        The accelerator, or a design around it, with the ports `clk` and `irq`.
    registers : cocotbext.axi.AxiLiteMaster, or a window of one
        Has the accelerator's registers at address 0.
    memory : HostMemory
        What its memory port reaches.
    """

    name = "cocotb"

    def __init__(self, dut: Any, registers: Any, memory: HostMemory):
        self._dut = dut
        self.capacity_bytes = memory.nbytes
        self._free_list = FreeList(memory.base_address, self.capacity_bytes)
        self._buffers: dict[int, BenchBuffer] = {}
        self._read = resume(registers.read_dword)
        self._write = resume(registers.write_dword)
        self._read_memory = resume(memory.read)
        self._write_memory = resume(memory.write)
        self._wait = resume(self._until)

    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset."""
        return int(self._read(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset."""
        self._write(offset, value)

    def wait(self, cycles: int) -> None:
        """Let time pass until the interrupt, or for this many cycles if that is earlier."""
        self._wait(cycles)

    async def _until(self, cycles: int) -> None:
        if not self._dut.irq.value:
            await First(RisingEdge(self._dut.irq), ClockCycles(self._dut.clk, max(1, min(cycles, TIMEOUT_CYCLES))))

    def allocate(self, nbytes: int, port: int = 0) -> BenchBuffer:
        """Return a buffer; DeviceError if the memory, which all ports reach, has no room."""
        buffer = BenchBuffer(self, self._free_list.take(nbytes), -(-nbytes // WORD_BYTES))
        self._buffers[buffer.device_address] = buffer
        return buffer

    @property
    def buffers(self) -> list[BenchBuffer]:
        """All buffers that are not freed, in the order in which they were made."""
        return list(self._buffers.values())

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the memory; in no time if the memory is a `BenchMemory`."""
        self._write_memory(self._address(buffer), buffer.array.tobytes())

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the memory to the host; in no time if the memory is a `BenchMemory`."""
        content = self._read_memory(self._address(buffer), buffer.array.nbytes)
        buffer.array[:] = np.frombuffer(content, np.uint64)

    def free(self, buffer: BenchBuffer) -> None:
        """Free a buffer; a second call does nothing."""
        if self._buffers.get(buffer.device_address) is buffer:
            del self._buffers[buffer.device_address]
            self._free_list.give(buffer.device_address)

    def close(self) -> None:
        """Do nothing: the simulator ends with its tests."""

    def _address(self, buffer: Buffer) -> int:
        if self._buffers.get(buffer.device_address) is not buffer:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or belongs to another device")
        return buffer.device_address
