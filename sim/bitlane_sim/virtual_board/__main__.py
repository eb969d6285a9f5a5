"""Measure the driver on a simulated board: `python -m bitlane_sim.virtual_board`, in an environment with pynq.

It trains ten epochs at 4 bits: MNIST, one digit against the rest, if BITLANE_DATA has it, else 60,000 random rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pynq
from pynq.pl_server import global_state

from bitlane.data.datasets import load_dataset
from bitlane.devices.pynq.board import open_board
from bitlane.driver.driver import Driver
from bitlane.driver.job import JobResult
from bitlane.quantization.scaling import Matrix
from bitlane.training.options import TrainingOptions
from bitlane.training.train import train

from .board import Hardware, SimulatedBoard
from .boards import PYNQ_Z2, ZCU104, write_overlay

EPOCHS = 10


def main() -> None:
    """Print the register accesses and the seconds of each phase."""
    kind = PYNQ_Z2 if pynq.__version__.startswith("3.") else ZCU104
    hardware = Hardware(kind, capacity_bytes=128 << 20)
    pynq.Device.active_device = SimulatedBoard(hardware)
    inside, accesses = 0.0, 0
    run = Driver.run

    def timed(*arguments: Any, **options: Any) -> JobResult:
        nonlocal inside, accesses
        begin, before = time.perf_counter(), len(hardware.accesses)
        outcome = run(*arguments, **options)
        inside += time.perf_counter() - begin
        accesses += len(hardware.accesses) - before
        return outcome

    Driver.run = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        global_state.STATE_DIR = folder  # pynq's record of what is loaded
        global_state.initial_global_state_file_boot_check = lambda: None
        device = open_board(bitfile=write_overlay(kind, Path(folder)))
    name, X, y = _samples()
    hardware.accesses.clear()
    begin = time.perf_counter()
    options = TrainingOptions(draws="once", epochs=EPOCHS, batch_size=64, learning_rate=0.01)
    result = train(X, y, options, device)
    total = time.perf_counter() - begin
    outside = inside - hardware.seconds
    board = result.cycles / 100e6
    print(f"pynq {pynq.__version__}, {device.name}: {name}, {EPOCHS} epochs, {result.launches} start(s)")
    print(f"  register accesses            {accesses:8}   and {len(hardware.accesses) - accesses} to bind the driver")
    print(f"  seconds in the device        {hardware.seconds:8.2f}   simulated; {board:.2f} s at 100 MHz")
    print(f"  seconds of the driver        {outside:8.2f}   {100 * outside / inside:.2f} % of the run")
    print(f"  seconds of encoding samples  {total - inside:8.2f}   before the run")


def _samples() -> tuple[str, Matrix, Matrix]:
    if "BITLANE_DATA" in os.environ:
        table = load_dataset("mnist")
        return "MNIST", table.X, np.where(table.y == 0, 1.0, -1.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 717)).astype(np.float32)
    return "60,000 random rows of 717", X, np.sign(X[:, 0] + rng.normal(size=len(X)))


if __name__ == "__main__":
    main()
