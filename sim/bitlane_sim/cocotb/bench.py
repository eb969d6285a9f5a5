"""The exported accelerator in a cocotb testbench: clock, reset, bus agents, and the host's driver."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Callable
from random import Random
from typing import Any, ParamSpec, TypeVar

from cocotb.clock import Clock
from cocotb.task import bridge
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

from bitlane.driver.driver import Driver

from .device import BASE_ADDRESS, BenchMemory, CocotbDevice
from .monitors import StableMonitor
from .pauses import pause_everywhere

warnings.filterwarnings("ignore", category=DeprecationWarning, module="cocotbext")  # of cocotb 1
P = ParamSpec("P")
Result = TypeVar("Result")


class AcceleratorBench:
    """The accelerator with a host on its register port and a memory on its memory port, both of cocotbext-axi.

    Call `reset` first. It starts the clock 1 ns after power-up: until then the agents have not driven their signals,
    and a simulator with four states would show them X.

    Parameters
    ----------
    dut : cocotb handle
        The design: ports `clk`, `rst` and `irq`, and buses with the prefixes `s_axi` and `m_axi`.
    pauses : bool, default=False
        Whether all channels pause at random, by the seed of the cocotb run. The bench then checks too that a channel
        keeps valid and payload until its transfer.
    memory_bytes : int, default=1 MiB
        Size of the memory, a multiple of 4096. It begins at `BASE_ADDRESS`; an access outside gets SLVERR.
    period_ns : int, default=10
        Period of the clock.

    Attributes
    ----------
    host : cocotbext.axi.AxiLiteMaster
        Master of the register port.
    memory : BenchMemory
    device : CocotbDevice
        The accelerator as a device of drivers and estimators.
    driver : Driver
        Its driver, after `reset`; `driver.config` is the build.
    """

    driver: Driver

    def __init__(self, dut: Any, pauses: bool = False, memory_bytes: int = 1 << 20, period_ns: int = 10):
        self.dut = dut
        self._clock = Clock(dut.clk, period_ns, unit="ns")
        self._started = False
        for port in ("s_axi", "m_axi"):
            logging.getLogger(f"cocotb.{dut._name}.{port}").setLevel(logging.WARNING)  # not a line for each burst
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        self.memory = BenchMemory(BASE_ADDRESS, memory_bytes)
        slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, target=self.memory)
        if pauses:
            chosen = Random(random.getrandbits(64))  # cocotb has seeded it
            StableMonitor(dut, "m_axi", ("ar", "aw", "w"))
            StableMonitor(dut, "s_axi", ("r", "b"))
            pause_everywhere(self.host, chosen)
            pause_everywhere(slave, chosen)
        self.device = CocotbDevice(dut, self.host, self.memory)

    async def reset(self, cycles: int = 4) -> None:
        """Hold the reset for some clock cycles, and read the build of the accelerator. Starts the clock if needed."""
        self.dut.rst.value = 1
        if not self._started:
            await Timer(1, "ns")
            self._clock.start()
            self._started = True
        await ClockCycles(self.dut.clk, cycles)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)
        self.driver = await self.call(Driver, self.device)

    async def call(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Call a function that uses the device, such as `driver.run` or the `fit` of an estimator.

        It runs in a thread of cocotb. Simulated time passes only in its accesses to the device.
        """
        return await bridge(function)(*args, **kwargs)
