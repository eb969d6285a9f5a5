"""Copies of words by the small master, whose buses a harness watches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bitlane.contract.cycles import MemoryTiming
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.harness import Harness

BASE = 0x1000_0000


def copied(library: Path, disturbance: Disturbance) -> Harness:
    """Copy four bursts of sixteen beats; the second one written ends at a multiple of 4096."""
    words = np.arange(4096, dtype=np.uint64)
    harness = Harness(library, words, BASE, MemoryTiming(9, 5), disturbance)
    for offset, value in ((0x28, 1), (0x40, BASE), (0x44, BASE + 0x4000 - 0x100), (0x48, 4), (0x20, 1)):
        harness.write(offset, value)
    harness.run(20_000)
    return harness
