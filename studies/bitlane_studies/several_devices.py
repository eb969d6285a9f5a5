"""Cycles to the loss of 32 bits on 1, 2 and 4 devices: `python -m bitlane_studies.several_devices`.

Digit 0 of MNIST against the rest, and a synthetic regression, with 4 stored bits on simulated devices (`device="cpu"`,
whose cycles are predicted). The goal is a true loss of the float64 coefficients within 1 % of the final loss with 32
bits on one device. All trainings have the same schedule, and losses are means over seeds. With each number of devices
the learning rate is the one of a grid that reaches the goal soonest; with 32 bits, the one with the least final loss.
Beside it stands the best rate of one device times the number of devices, with averages after each epoch, and with
fewer. A last table has the cycles of one-vs-rest of ten classes, which are spread over the devices.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices import Device, open_device
from bitlane.errors import DataError
from bitlane.evaluation.compare import ComparisonData, binary_labels
from bitlane.evaluation.metrics import losses_of
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.scaling import Floats
from bitlane.support.text import align_columns
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.several import train_on_several
from bitlane_studies.papers.zipml.tasks import synthetic_data

BITS = Precision(4)
FULL = Precision(32, "full")
COUNTS = (1, 2, 4)
SEEDS = 3
SCHEDULE = TrainingSchedule(epochs=15, decay=0.9)
BATCHES = (16, 64)
FACTORS = tuple(2.0 ** (k / 2) for k in range(-9, 2))  # the grid, in multiples of the automatic learning rate
WITHIN = 1.01
CLASSES = 10
RATIO = "1 device over it"
EVERY = (2, 4)
HEAD = (
    *("devices", "best rate", "epochs", "cycles", RATIO, "epochs with K times the rate of 1", RATIO),
    *(f"averaged every {every}" for every in EVERY),
)


@dataclass(frozen=True)
class RateCurve:
    """Trainings with one learning rate.

    Attributes
    ----------
    rate : float
    loss : float64 array [epochs]
        True loss after each epoch, mean over seeds.
    cycles : int64 array [epochs]
        Cycles to the end of each epoch.
    """

    rate: float
    loss: Floats
    cycles: NDArray[np.int64]

    def epochs_to(self, goal: float) -> int | None:
        """Return the epochs after which the loss is at most `goal`; None if it never is."""
        reached = np.flatnonzero(self.loss <= goal)
        return int(reached[0]) + 1 if len(reached) else None

    def cycles_to(self, goal: float) -> float:
        """Return the cycles to `goal`; infinite if the loss never reaches it."""
        epochs = self.epochs_to(goal)
        return float("inf") if epochs is None else float(self.cycles[epochs - 1])


def curve(
    data: ComparisonData, schedule: TrainingSchedule, precision: Precision, devices: Sequence[Device], every: int = 1
) -> RateCurve:
    """Train on these devices with each seed, and average shards every so many epochs."""
    losses = []
    for seed in range(SEEDS):
        options = replace(schedule, seed=seed).options(precision)
        options = replace(options, shuffle=True, average_every=every)
        run = train_on_several(data.X, data.y, options, devices, snapshots=True)
        losses.append(losses_of(data.X, data.y, *run.models()))
    return RateCurve(schedule.learning_rate, np.mean(losses, axis=0), run.epoch_cycles)


def table(data: ComparisonData, batch: int) -> str:
    """Return the table of one data set and batch size, as text."""
    devices = [open_device("cpu") for _ in range(max(COUNTS))]
    automatic = suggest_learning_rate(data.X, batch, BITS)

    def curves(precision: Precision, count: int, rates: Sequence[float], every: int = 1) -> list[RateCurve]:
        schedules = (replace(SCHEDULE, batch_size=batch, learning_rate=rate) for rate in rates)
        return [curve(data, schedule, precision, devices[:count], every) for schedule in schedules]

    grid = [automatic * factor for factor in FACTORS]
    goal = WITHIN * min(each.loss[-1] for each in curves(FULL, 1, grid))
    best = {count: min(curves(BITS, count, grid), key=lambda each: each.cycles_to(goal)) for count in COUNTS}
    rows = [HEAD]
    for count, own in best.items():
        scaled = [curves(BITS, count, [count * best[1].rate], every)[0] for every in (1, *EVERY)]
        rarely = (_epochs(each, goal) if count > 1 else "-" for each in scaled[1:])
        rows.append((str(count), *_cells(own, goal, best[1]), *_cells(scaled[0], goal, best[1])[1::2], *rarely))
    title = f"batch {batch}, automatic learning rate {automatic:g}, loss to reach {goal:.5g}"
    return f"{title}\n{align_columns(rows)}"


def _cells(own: RateCurve, goal: float, one: RateCurve) -> tuple[str, str, str, str]:
    cycles = own.cycles_to(goal)
    ratio = f"{one.cycles_to(goal) / cycles:.2f}" if np.isfinite(cycles) else "-"
    return f"{own.rate:.3g}", _epochs(own, goal), f"{cycles:,.0f}", ratio


def _epochs(own: RateCurve, goal: float) -> str:
    return str(own.epochs_to(goal) or "never")


def classes_table(X: Floats, labels: NDArray[np.int64]) -> str:
    """Return the cycles of an epoch of one-vs-rest, and whether the weights are those of one device, as text."""
    options = replace(SCHEDULE, epochs=1, batch_size=64, learning_rate=0.01).options(BITS)
    targets = np.where(labels[:, None] == np.arange(CLASSES), 1.0, -1.0)
    runs = {n: train_on_several(X, targets, options, [open_device("cpu") for _ in range(n)]) for n in COUNTS}
    rows = [("devices", "cycles", RATIO, "weights")]
    for count, run in runs.items():
        same = "the same" if np.array_equal(run.weights, runs[1].weights) else "DIFFERENT"
        rows.append((str(count), f"{run.cycles:,}", f"{runs[1].cycles / run.cycles:.2f}", same))
    return align_columns(rows)


def data_sets() -> Iterator[tuple[str, ComparisonData, NDArray[np.int64]]]:
    """Yield name, table and class of each row: the synthetic one, in tenths of its target, and MNIST if it is there."""
    made = synthetic_data(10_000, 1000, 1.0)
    tenths = np.quantile(made.y, np.arange(1, CLASSES) / CLASSES)
    yield "synthetic, 10,000 rows of 1,000 features", made, np.searchsorted(tenths, made.y).astype(np.int64)
    try:
        images = load_dataset("mnist")
    except DataError as error:
        print(f"MNIST skipped: {error}", file=sys.stderr)
        return
    yield "MNIST, 0 against the rest", ComparisonData(images.X, binary_labels(images.y, "0")), images.y.astype(np.int64)


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore", UserWarning)  # the grid has rates at which a training diverges
    for name, data, labels in data_sets():
        for batch in BATCHES:
            print(f"\n{name}; {table(data, batch)}", flush=True)
        print(f"\n{name}; ten classes\n{classes_table(data.X, labels)}", flush=True)


if __name__ == "__main__":
    main()
