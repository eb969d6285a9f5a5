"""Host seconds and device cycles of a training, by phase: `python -m bitlane_verify.benchmarks.end_to_end`.

MNIST, digit 0 against the rest: 60,000 rows of uint8, 4 bits, 8 draw sets, 20 epochs. The device is the RTL behind the
AXI3 ports of a Zynq-7000, one HP port, with a memory that answers after 30 cycles. It trains twice: the host encodes,
then the device does. The weights must be the same.

Phases of the device have its cycles, and their time at CLOCK_MHZ. The seconds of the others are those of the host that
runs this program, after a training that is not counted; NUMBA_NUM_THREADS=1 lets it encode with one thread, as a board
with one core would. A copy goes into the memory of the simulator.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np

from bitlane import SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.data.datasets import load_dataset
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns
from bitlane.training.result import TrainingResult
from bitlane_sim.rtl.zynq_device import zynq_device

CONFIG = AcceleratorConfig(address_bits=32, encoder=4)
CAPACITY = 512 << 20
LATENCY = 30  # cycles
ROWS, EPOCHS, BATCH = 60_000, 20, 64
CLOCK_MHZ = 100
PHASES = ("prepare", "encode", "copy", "train")


def trained(config: AcceleratorConfig, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, TrainingResult]:
    """Return the coefficients of a training on a build, and its result."""
    SGDRegressor(bits=4, epochs=1, batch_size=BATCH, device="cpu").fit(X, y)  # loads and compiles what a training needs
    with zynq_device(config, CAPACITY, MemoryTiming(LATENCY)) as device:
        model = SGDRegressor(bits=4, epochs=EPOCHS, batch_size=BATCH, random_state=0, device=device)
        return model.fit(X, y).coef_, model.run_


def table(host: TrainingResult, accelerated: TrainingResult) -> list[list[str]]:
    """Return a line for each phase, and one for all."""
    cells = [["phase", "host encodes: seconds", "cycles", "device encodes: seconds", "cycles"]]
    total = [0.0, 0, 0.0, 0]
    for phase in PHASES:
        line: list[float] = []
        for run in (host, accelerated):
            cycles = {"encode": run.encoding_cycles, "train": run.cycles}.get(phase, 0)
            seconds = cycles / CLOCK_MHZ / 1e6 if cycles else run.phases[phase]
            line += [seconds, cycles]
        total = [a + b for a, b in zip(total, line, strict=True)]
        cells.append([phase, *_shown(line)])
    return [*cells, ["all", *_shown(total)]]


def _shown(line: list[float]) -> list[str]:
    return [f"{line[0]:.3f}", f"{line[1]:,}", f"{line[2]:.3f}", f"{line[3]:,}"]


def main() -> int:
    """Print the table. Return exit status 1 without MNIST, or if the weights differ."""
    argparse.ArgumentParser(description="Host seconds and device cycles of a training, by phase.").parse_args()
    try:
        data = load_dataset("mnist")
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    X, y = np.asarray(data.X[:ROWS], np.uint8), np.where(data.y[:ROWS] == 0, 1.0, -1.0)
    runs = []
    for config in (replace(CONFIG, encoder=0), CONFIG):
        who = "the device encodes" if config.encoder else "the host encodes"
        print(f"simulating {EPOCHS} epochs; {who} ...", file=sys.stderr, flush=True)
        runs.append(trained(config, X, y))
    if not np.array_equal(runs[0][0], runs[1][0]):
        print("error: the weights differ", file=sys.stderr)
        return 1
    print(align_columns(table(runs[0][1], runs[1][1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
