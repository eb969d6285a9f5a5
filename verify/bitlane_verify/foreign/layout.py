"""What the system and its testbench agree on: the cores, the map of the memories, and the jobs of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.contract.config import AcceleratorConfig
from bitlane.driver.job import Job

CORES, MEMORIES = 2, 2
BUILD = AcceleratorConfig(max_features=128, row_buffer_beats=128, fifo_beats=64, address_bits=32)
# Stripes of 8 KiB alternate between the memories, so that the masters meet in both. The crossbar knows 16 of each.
STRIPE_BITS, STRIPES = 13, 16
BASE_ADDRESS, MEMORY_BYTES = 0x1000_0000, MEMORIES * STRIPES << STRIPE_BITS
CORE_BYTES = MEMORY_BYTES // CORES

# Files of a simulation in its folder, and the testbench's environment variable.
ROUNDS, RESULTS = "rounds", "results"
FOLDER = "BENCH_FOLDER"


@dataclass(frozen=True)
class Round:
    """Jobs that the cores run at the same time.

    Attributes
    ----------
    jobs : list of Job
        Of each core.
    lost : int, optional
        A core whose buffers are at addresses without memory. Only in the last round: verilog-axi's crossbar counts the
        answer to such a read although it did not count the read, and lets nothing of this master pass afterwards.
    """

    jobs: list[Job]
    lost: int | None = None
