"""Both cores run their jobs at the same time, while the host moves data through the same crossbar."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import logging
import os
import pickle
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.task import bridge
from cocotb.triggers import ClockCycles, Event, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiMaster

from bitlane.contract.registers import CONTROL_START, REGISTERS
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult
from bitlane.errors import DeviceError
from bitlane_sim.cocotb.device import BusMemory, CocotbDevice
from bitlane_sim.cocotb.monitors import StableMonitor

from .layout import BASE_ADDRESS, CORE_BYTES, CORES, FOLDER, MEMORY_BYTES, RESULTS, ROUNDS, Round

warnings.filterwarnings("ignore", category=DeprecationWarning, module="cocotbext")  # of cocotb 1
PERIOD_NS = 10
TIMEOUT_MS = 10  # some ten times as long as it takes


class StartTogether:
    """The registers of a core. The first start waits until the other cores are about to start too.

    Parameters
    ----------
    registers : cocotbext.axi.AxiLiteMaster
    mine : Event
        Set when this core is about to start.
    others : list of Event
        Of the other cores.
    """

    def __init__(self, registers: Any, mine: Event, others: list[Event]):
        self.read_dword = registers.read_dword
        self._write_dword = registers.write_dword
        self._mine = mine
        self._others = others

    async def write_dword(self, offset: int, value: int) -> None:
        """Write a register."""
        if offset == REGISTERS["control"].offset and value & CONTROL_START:
            self._mine.set()
            for other in self._others:
                await other.wait()
        await self._write_dword(offset, value)


class NoMemory:
    """Addresses behind the memories, as the memory of a device: what the host writes there is lost."""

    base_address, nbytes = BASE_ADDRESS + MEMORY_BYTES, CORE_BYTES

    async def read(self, address: int, length: int) -> bytes:
        """Return zeros."""
        return bytes(length)

    async def write(self, address: int, data: bytes) -> None:
        """Do nothing."""


async def count_meetings(dut: Any, counts: dict[str, int]) -> None:
    """Count the cycles in which the addresses of both cores wait, and those in which both cores receive data."""
    ports = [_port(dut, core) for core in range(CORES)]
    while True:
        await RisingEdge(dut.clk)
        counts["waiting"] += all(port.arvalid.value and not port.arready.value for port in ports)
        counts["receiving"] += all(bool(port.rvalid.value) for port in ports)


def _port(dut: Any, core: int) -> Any:
    """Return signals of a core's memory port."""
    return SimpleNamespace(**{name: getattr(dut, f"port{core}_{name}") for name in ("arvalid", "arready", "rvalid")})


@cocotb.test(timeout_time=TIMEOUT_MS, timeout_unit="ms")
async def trains_on_both_cores(dut: Any) -> None:
    """Save the results of all rounds of jobs."""
    folder = Path(os.environ[FOLDER])
    rounds: list[Round] = pickle.loads((folder / ROUNDS).read_bytes())
    for port in ("host", *(f"core{core}" for core in range(CORES))):
        logging.getLogger(f"cocotb.{dut._name}.{port}").setLevel(logging.WARNING)  # not a line for each transfer
    host = AxiMaster(AxiBus.from_prefix(dut, "host"), dut.clk, dut.rst)
    registers = [AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"core{core}"), dut.clk, dut.rst) for core in range(CORES)]
    for core in range(CORES):
        StableMonitor(dut, f"port{core}", ("ar", "aw", "w"))
    meetings = dict.fromkeys(("waiting", "receiving"), 0)
    dut.rst.value = 1
    await Timer(1, "ns")
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 4)
    cocotb.start_soon(count_meetings(dut, meetings))

    async def train(core: int, job: Job, events: list[Event], is_lost: bool) -> JobResult | str:
        """Return the result, or the driver's error."""
        others = [event for event in events if event is not events[core]]
        device = CocotbDevice(
            SimpleNamespace(clk=dut.clk, irq=getattr(dut, f"irq{core}")),
            StartTogether(registers[core], events[core], others),
            NoMemory() if is_lost else BusMemory(host, BASE_ADDRESS + core * CORE_BYTES, CORE_BYTES),
        )
        try:
            return await bridge(lambda: Driver(device).run(job))()
        except DeviceError as error:
            return str(error)

    results = []
    for planned in rounds:
        events = [Event() for _ in range(CORES)]
        tasks = [
            cocotb.start_soon(train(core, job, events, core == planned.lost)) for core, job in enumerate(planned.jobs)
        ]
        results.append([await task for task in tasks])
    (folder / RESULTS).write_bytes(pickle.dumps((results, meetings)))
