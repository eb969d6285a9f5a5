"""Train the digits on the SoC: a host on its AXI4-Lite port starts the DRAM and runs bitlane's driver."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import json
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.task import bridge
from cocotb.triggers import ClockCycles, Timer
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from bitlane_sim.cocotb.device import BusMemory, CocotbDevice
from bitlane_sim.rtl.build import TOP as ACCELERATOR

from .digits import train_digits
from .files import ADDRESSES, DRAM_START, FOLDER, MODEL, SEED

warnings.filterwarnings("ignore", category=DeprecationWarning, module="cocotbext")  # of cocotb 1
PERIOD_NS = 10


async def start_dram(dut: Any, host: Any, addresses: dict[str, Any], folder: Path) -> None:
    """Write the registers of LiteDRAM, as the software of a LiteX SoC with a processor does."""
    for register, value, cycles in json.loads((folder / DRAM_START).read_text()):
        await host.write_dword(addresses["csr_registers"][register]["addr"], value)
        await ClockCycles(dut.clk, 1 + cycles)


@cocotb.test()
async def trains_digits(dut: Any) -> None:
    """Save the model of the SoC. The simulator's output has the violations of DRAM timing, if there are any."""
    folder = Path(os.environ[FOLDER])
    addresses = json.loads((folder / ADDRESSES).read_text())
    logging.getLogger(f"cocotb.{dut._name}.s_axi").setLevel(logging.WARNING)  # not a line for each transfer
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
    dut.rst.value = 1
    await Timer(1, "ns")
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 4)
    await start_dram(dut, host, addresses, folder)
    dut._log.info("the DRAM has started")

    registers, dram = (addresses["memories"][name] for name in (ACCELERATOR, "main_ram"))
    device = CocotbDevice(
        dut,
        host.create_window(registers["base"], registers["size"]),
        BusMemory(host, dram["base"], dram["size"]),
    )
    model = await bridge(train_digits)(device, int(os.environ[SEED]))
    model.save(folder / MODEL)
