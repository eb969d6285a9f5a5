"""One job under cocotb without pauses, timed: cycles and seconds go to the file that BENCH_TIMES names."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.utils import get_sim_time

from bitlane_sim.cocotb.bench import AcceleratorBench

PERIOD = 10  # ns


@cocotb.test()
async def timed(dut: Any) -> None:
    """Run the job."""
    job = pickle.loads(Path(os.environ["BENCH_JOB"]).read_bytes())
    bench = AcceleratorBench(dut, period_ns=PERIOD)
    await bench.reset()
    begin, start = time.perf_counter(), get_sim_time("ns")
    await bench.call(bench.driver.run, job)
    result = {"seconds": time.perf_counter() - begin, "cycles": (get_sim_time("ns") - start) / PERIOD}
    Path(os.environ["BENCH_TIMES"]).write_text(json.dumps(result))
