"""Memory that a host reaches over its bus: bytes go through, and an error of the bus is reported."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from bitlane.errors import DeviceError

if importlib.util.find_spec("cocotbext") is None:
    pytest.skip("needs cocotbext-axi", allow_module_level=True)

from cocotbext.axi import AxiResp
from cocotbext.axi.axil_master import AxiLiteReadResp, AxiLiteWriteResp

from bitlane_sim.cocotb.device import BusMemory


class Host:
    """A master of a bus with a few bytes behind it, and an error at all other addresses."""

    def __init__(self) -> None:
        self.content = bytearray(64)

    def answer(self, address: int, length: int) -> AxiResp:
        return AxiResp.OKAY if 0x100 <= address <= 0x140 - length else AxiResp.DECERR

    async def read(self, address: int, length: int) -> AxiLiteReadResp:
        data = bytes(self.content[address - 0x100 :][:length])
        return AxiLiteReadResp(address, data, self.answer(address, length))

    async def write(self, address: int, data: bytes) -> AxiLiteWriteResp:
        self.content[address - 0x100 : address - 0x100 + len(data)] = data
        return AxiLiteWriteResp(address, len(data), self.answer(address, len(data)))


def test_bytes_go_over_the_bus() -> None:
    memory = BusMemory(Host(), 0x100, 64)
    asyncio.run(memory.write(0x110, b"weights"))
    assert asyncio.run(memory.read(0x10F, 9)) == b"\0weights\0"


def test_an_error_of_the_bus_is_reported() -> None:
    memory = BusMemory(Host(), 0x100, 64)
    with pytest.raises(DeviceError, match="DECERR at 0x13c"):
        asyncio.run(memory.read(0x13C, 8))
    with pytest.raises(DeviceError, match="DECERR at 0x0"):
        asyncio.run(memory.write(0, b"abcd"))
