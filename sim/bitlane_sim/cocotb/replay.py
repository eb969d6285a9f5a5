"""Testbench of the complete accelerator: repeats a recorded run with cocotbext-axi on both ports.

Environment variables: BENCH_FOLDER is the folder of the recording; BENCH_PAUSES=0 runs without pauses.
"""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from bitlane.contract.registers import CONTROL_ACKNOWLEDGE, CONTROL_START, REGISTERS, STATUS_BUSY, STATUS_DONE

from .monitors import StableMonitor
from .pauses import pause_everywhere
from .recording import CAPACITY, Recording

PERIOD = 10  # ns
TIMEOUT = 5_000_000  # cycles


class ReplayBench:
    """The accelerator with a host on its register port and a memory on its memory port."""

    def __init__(self, dut: Any, disturbed: bool):
        self.dut = dut
        Clock(dut.clk, PERIOD, unit="ns").start()
        self.host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        self.memory = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=CAPACITY)
        if disturbed:
            chosen = Random(random.getrandbits(64))  # cocotb has seeded it
            StableMonitor(dut, "m_axi", ("ar", "aw", "w"))
            StableMonitor(dut, "s_axi", ("r", "b"))
            pause_everywhere(self.host, chosen)
            pause_everywhere(self.memory, chosen)

    async def reset(self) -> None:
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def read(self, name: str) -> int:
        register = REGISTERS[name]
        words = [await self.host.read_dword(register.offset + 4 * i) for i in range(register.words)]
        return sum(int(word) << 32 * i for i, word in enumerate(words))

    async def write(self, name: str, value: int) -> None:
        await self.host.write_dword(REGISTERS[name].offset, value)

    async def run(self, recording: Recording) -> None:
        """Load the recorded memory, write the recorded registers, and run until the interrupt."""
        self.memory.write(0, recording.before.tobytes())
        for offset, value in recording.writes:
            await self.host.write_dword(offset, value)
        await self.write("irq_enable", 1)
        await self.write("control", CONTROL_START)
        await with_timeout(RisingEdge(self.dut.irq), TIMEOUT * PERIOD, "ns")

    def words(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        return np.frombuffer(bytes(self.memory.read(0, CAPACITY)), np.uint64)


async def read_at_random(bench: ReplayBench, chosen: Random) -> None:
    """Read random registers while the accelerator runs."""
    while True:
        await bench.read(chosen.choice(list(REGISTERS)))
        await ClockCycles(bench.dut.clk, chosen.randint(1, 50))


@cocotb.test()
async def same_as_recorded(dut: Any) -> None:
    """Results and memory are as recorded, in two runs, the second with register reads at random."""
    recording = Recording.load(Path(os.environ["BENCH_FOLDER"]))
    if os.environ.get("BENCH_PAUSES") == "0":
        await timed(dut, recording)
        return
    bench = ReplayBench(dut, disturbed=True)
    await bench.reset()
    for again in (False, True):
        reader = cocotb.start_soon(read_at_random(bench, Random(random.getrandbits(64)))) if again else None
        await bench.run(recording)
        if reader:
            reader.cancel()
        assert await bench.read("status") == STATUS_DONE
        results = {name: await bench.read(name) for name in recording.results}
        assert results == recording.results
        differs = recording.same_memory(bench.words())
        assert not differs.size, f"memory differs in words {differs[:8]}"
        await bench.write("control", CONTROL_ACKNOWLEDGE)
        assert not await bench.read("status") & (STATUS_BUSY | STATUS_DONE)
        assert not dut.irq.value


async def timed(dut: Any, recording: Recording) -> None:
    """Run without pauses and checks; write cycles and seconds to `timed.json`."""
    bench = ReplayBench(dut, disturbed=False)
    await bench.reset()
    begin, cycles = time.perf_counter(), get_sim_time("ns") / PERIOD
    await bench.run(recording)
    result = {"seconds": time.perf_counter() - begin, "cycles": get_sim_time("ns") / PERIOD - cycles}
    (Path(os.environ["BENCH_FOLDER"]) / "timed.json").write_text(json.dumps(result))
