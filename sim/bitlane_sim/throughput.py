"""Cycles an epoch on the RTL at several precisions, against the bounds: `python -m bitlane_sim.throughput`.

Trains one digit of MNIST against the rest for one epoch (where the data set can be had), and 10,000 rows of
exactly 784 features; cycles are counted by the hardware, start-up and storing the model included.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitlane.accelerator import Accelerator, Job
from bitlane.contract import MASTER_OFFSET
from bitlane.cycles import MemoryTiming
from bitlane.datasets import load_dataset
from bitlane.errors import BitlaneError
from bitlane.layout import Geometry, pack_base, pack_draws
from bitlane.quantize import Precision
from bitlane.settings import Settings
from bitlane.summary import aligned
from bitlane.training import train

from .device import RtlDevice

PRECISIONS = (
    Precision(2, "double"),
    Precision(4, "double"),
    Precision(8, "double"),
    Precision(32, "full"),
)
CAPACITY = 512 << 20  # all of MNIST at 32 bits in one start
HEADINGS = ("", "cycles/epoch", "layout bound", "bound/cycles", "raw bound", "raw/cycles", "32 bits over it")


@dataclass(frozen=True)
class Epoch:
    """One epoch's cycles and bounds."""

    name: str
    cycles: int
    layout: float
    raw: float


def table(epochs: list[Epoch]) -> str:
    """Aligned text; the last epoch is the one that the others are compared with."""
    rows = [
        (
            epoch.name,
            f"{epoch.cycles:,}",
            f"{epoch.layout:,.0f}",
            f"{epoch.layout / epoch.cycles:.4f}",
            f"{epoch.raw:,.0f}",
            f"{epoch.raw / epoch.cycles:.4f}",
            f"{epochs[-1].cycles / epoch.cycles:.2f}",
        )
        for epoch in epochs
    ]
    return aligned([HEADINGS, *rows])


def label(precision: Precision) -> str:
    """The precision as the tables call it."""
    return f"{precision.sampling} s={precision.bits}"


def mnist_epochs(device: RtlDevice, batch: int) -> Iterator[Epoch]:
    """Digit 0 against the rest, 60,000 rows. BitlaneError where MNIST cannot be had."""
    data = load_dataset("mnist")
    labels = np.where(data.y == 0, 1.0, -1.0)
    for precision in PRECISIONS:
        run = train(data.X, labels, precision=precision, device=device, epochs=1, batch_size=batch, learning_rate=0.01)
        yield Epoch(label(precision), run.cycles, run.bound.layout, run.bound.raw)


def synthetic_epochs(device: RtlDevice, batch: int, rows: int = 10_000, features: int = 784) -> Iterator[Epoch]:
    """Random codes of a given shape; the cycles do not depend on what the bits are."""
    chosen = np.random.default_rng(0)
    for precision in PRECISIONS:
        geometry = Geometry(features, rows, precision.base_digits, precision.draws, batch)
        codes = chosen.integers(0, 1 << precision.base_bits, (rows, features)).astype(np.uint32)
        draws = chosen.integers(0, 4, (rows, features)).astype(np.uint8)
        job = Job(
            geometry,
            base=[pack_base(codes, np.zeros((rows, 1), np.int16), geometry)],
            draws=[pack_draws(draws, geometry)] if precision.draws else [],
            master=np.full((1, features), MASTER_OFFSET, np.int32),
            epochs=1,
            settings=Settings(step=1 << 15 | 20 << 16, step_negative=1 << 15 | 20 << 16),
        )
        outcome = Accelerator(device).run(job)
        yield Epoch(label(precision), outcome.counters.cycles, geometry.layout_bound, geometry.raw_bound)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Cycles an epoch on the RTL, against the bounds.")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--latency", type=int, default=60, help="of a read, in cycles")
    arguments = parser.parse_args()
    with RtlDevice(capacity_bytes=CAPACITY, timing=MemoryTiming(arguments.latency)) as device:
        title = f"batch {arguments.batch}, read latency {arguments.latency} cycles, one 64-bit port"
        print(f"10,000 random rows of 784 features, {title}")
        print(table(list(synthetic_epochs(device, arguments.batch))), flush=True)
        print(f"\nMNIST, one digit against the rest, {title}")
        try:
            print(table(list(mnist_epochs(device, arguments.batch))))
        except BitlaneError as error:
            print(f"not measured: {error}")


if __name__ == "__main__":
    main()
