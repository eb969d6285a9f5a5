"""Cycles until fewer bits reach the loss of 32 bits: `python -m bitlane_studies.time_to_loss`.

Trains with one schedule at 32, 4 and 2 bits. Losses and cycles are those of the emulator, which equal the RTL's: one
epoch of each precision runs on the RTL as well, and any difference in cycles or weights ends the program. The table has
the cycles of an epoch, the final loss, and the cycles to the first epoch whose loss is within 1 % of the final loss at
32 bits.
"""

from __future__ import annotations

import argparse

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices import Device
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import BitlaneError
from bitlane.evaluation.compare import Comparison, ComparisonData, binary_labels, compare
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.support.text import align_columns
from bitlane_sim.rtl.device import RtlDevice
from bitlane_studies.papers.zipml.speed import check_on_rtl
from bitlane_studies.papers.zipml.tasks import DATA_SEED, LinearTask, synthetic_data

FEW = (Precision(4), Precision(2))
CAPACITY = 512 << 20  # all of MNIST at 32 bits in one start
WITHIN = 1.01
HEADINGS = (
    *("", "cycles/epoch", "32 bits over it", "final loss", "over 32 bits"),
    *("epochs to within 1 %", "cycles to it", "32 bits over it"),
)


def mnist() -> LinearTask:
    """Return digit 0 against the rest: 60,000 rows of 717 features that vary. Raises BitlaneError without MNIST."""
    table = load_dataset("mnist")
    order = np.random.default_rng(DATA_SEED).permutation(table.rows)
    data = ComparisonData(table.X[order], binary_labels(table.y[order], "0"))
    schedule = TrainingSchedule(epochs=15, batch_size=64, learning_rate=0.01, decay=0.9)
    return LinearTask("MNIST, 0 against the rest", data, schedule)


def synthetic(rows: int = 10_000, features: int = 1000, noise: float = 1.0) -> LinearTask:
    """Return uniform features, normal weights, and labels with noise of `noise` times their standard deviation."""
    schedule = TrainingSchedule(epochs=15, batch_size=64, learning_rate=0.01, decay=0.9)
    return LinearTask(f"synthetic, {features:,} features", synthetic_data(rows, features, noise), schedule)


def table(comparison: Comparison) -> str:
    """Return one line for each precision of the accelerator."""
    full = comparison.results[1]
    goal = WITHIN * full.loss
    cells = [HEADINGS]
    longest = full.cycles_to(goal)
    for result in comparison.results[1:]:
        mine = result.cycles_to(goal)
        cells.append(
            (
                result.label,
                f"{result.cycles_per_epoch:,.0f}",
                f"{(full.cycles_per_epoch or 0) / (result.cycles_per_epoch or 1):.2f}",
                f"{result.loss:.5g}",
                f"{comparison.relative(result):.4f}",
                str(result.epochs_to(goal) or "never"),
                f"{mine:,.0f}" if mine else "-",
                f"{longest / mine:.2f}" if longest and mine else "-",
            )
        )
    return align_columns(cells)


def report(task: LinearTask, rtl: Device) -> None:
    """Train at all precisions, and print the table."""
    schedule, emulator = task.schedule, EmulatorDevice(capacity_bytes=CAPACITY)
    comparison = compare(task.data, FEW, schedule, device=emulator)
    print(
        f"\n{task.name}: {comparison.rows:,} rows; squared error, batch {schedule.batch_size}, learning rate "
        f"{schedule.learning_rate:g}, decay {schedule.decay:g}, {schedule.epochs} epochs, fresh draws, staleness 0"
    )
    print(table(comparison), flush=True)
    cycles = check_on_rtl(task, FEW, rtl, emulator)
    ratios = ", ".join(f"{cycles[0] / each:.2f}" for each in cycles[1:])
    print(f"one epoch on the RTL: {', '.join(f'{each:,}' for each in cycles)} cycles, as predicted; ratios {ratios}")


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(description="Cycles to the loss of 32 bits.").parse_args()
    with RtlDevice(capacity_bytes=CAPACITY) as rtl:
        report(synthetic(), rtl)
        try:
            task = mnist()
        except BitlaneError as error:
            print(f"\nMNIST not measured: {error}")
            return
        report(task, rtl)


if __name__ == "__main__":
    main()
