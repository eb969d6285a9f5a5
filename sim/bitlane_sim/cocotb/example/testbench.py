"""Train a few rows on the exported Verilog, and compare weights and losses with the numpy reference.

Run it with `python -m bitlane_sim.cocotb testbench.py`.
"""

import random
from typing import Any

import cocotb
import numpy as np

from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.training.job import training_job
from bitlane.training.options import TrainingOptions
from bitlane_sim.cocotb.bench import AcceleratorBench


@cocotb.test()
async def trains_like_the_reference(dut: Any) -> None:
    """3 epochs over 12 rows of 40 features, stored with 4 bits, on buses that pause at random."""
    bench = AcceleratorBench(dut, pauses=True)
    await bench.reset()

    rng = np.random.default_rng(random.getrandbits(32))  # cocotb has seeded it, and prints the seed
    X = rng.uniform(-1, 1, (12, 40))
    y = X @ rng.uniform(-1, 1, 40)
    options = TrainingOptions(Precision(bits=4), epochs=3, batch_size=4, learning_rate=0.05)
    job = training_job(X, y, options, bench.driver.config)

    found = await bench.call(bench.driver.run, job)
    expected = Driver(EmulatorDevice(bench.driver.config)).run(job)
    np.testing.assert_array_equal(found.state.master, expected.state.master)
    np.testing.assert_array_equal(found.loss, expected.loss)
    dut._log.info("losses %s in %d cycles", found.loss[:, 0] / 2**32, found.counters.cycles)
