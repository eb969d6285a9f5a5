"""A job on the accelerator, between bus agents that pause, gives the bits of the emulator."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from bitlane.contract.registers import REGISTERS, STATUS_BUSY, STATUS_DONE
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult

from .bench import AcceleratorBench
from .device import BenchBuffer


async def read_at_random(bench: AcceleratorBench, chosen: Random) -> None:
    """Read random registers while the accelerator runs."""
    while True:
        await bench.host.read_dword(REGISTERS[chosen.choice(list(REGISTERS))].offset)
        await ClockCycles(bench.dut.clk, chosen.randint(1, 50))


def compare(found: JobResult, expected: JobResult) -> None:
    """Compare what does not depend on the timing of the buses."""
    np.testing.assert_array_equal(found.loss, expected.loss)
    np.testing.assert_array_equal(found.state.master, expected.state.master)
    np.testing.assert_array_equal(found.snapshots, expected.snapshots)
    assert found.state.settings == expected.state.settings
    assert found.counters.beats == expected.counters.beats
    assert found.counters.saturations == expected.counters.saturations


@cocotb.test()
async def same_as_the_emulator(dut: Any) -> None:
    """Results are those of the emulator and nothing else is written, in two runs, the second read at random."""
    job: Job = pickle.loads(Path(os.environ["BENCH_JOB"]).read_bytes())
    bench = AcceleratorBench(dut, pauses=True)
    await bench.reset()
    expected = Driver(EmulatorDevice(bench.driver.config)).run(job)
    memory = bench.memory.content
    memory[:] = np.frombuffer(random.randbytes(len(memory)), np.uint8)
    before: list[np.ndarray[Any, np.dtype[np.uint8]]] = []
    written: list[BenchBuffer] = []

    def at_the_start() -> None:
        before[:] = [memory.copy()]
        written[:] = bench.device.buffers[-2:]  # models and trace

    for again in (False, True):
        reader = cocotb.start_soon(read_at_random(bench, Random(random.getrandbits(64)))) if again else None
        found = await bench.call(bench.driver.run, job, while_running=at_the_start)
        if reader:
            reader.cancel()
        compare(found, expected)
        for buffer in written:
            bench.memory.at(buffer.device_address, buffer.array.nbytes)[:] = 0
            first = buffer.device_address - bench.memory.base_address
            before[0][first : first + buffer.array.nbytes] = 0
        assert not np.flatnonzero(memory != before[0]).size, "the run wrote outside of its buffers"
        status = await bench.host.read_dword(REGISTERS["status"].offset)
        assert not int(status) & (STATUS_BUSY | STATUS_DONE)
        assert not dut.irq.value
