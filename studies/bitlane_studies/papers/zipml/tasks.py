"""The tasks of linear models: the paper's available data sets, and substitutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices import Device
from bitlane.evaluation.compare import Comparison, ComparisonData, compare
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.options import DECAY

from ..claim import Log

DATA_SEED = 2017  # separate from the seeds of the draws
BATCH = 64
WIDTH = 512  # bits of the emulator's port; the results are those of 64 bits, but the emulation is faster
TAILS = (0.01, 0.99)
REAL = ("cadata", "cpusmall", "cod-rna", "a9a", "millionsong_6719")


@dataclass(frozen=True)
class LinearTask:
    """Data and the schedule that all precisions share."""

    name: str
    data: ComparisonData
    schedule: TrainingSchedule


def synthetic_data(rows: int, features: int, noise: float) -> ComparisonData:
    """Return data with uniform features, normal weights and label noise of `noise` times the standard deviation."""
    chosen = np.random.default_rng(DATA_SEED)
    X = chosen.uniform(-1, 1, (rows, features))
    y = X @ chosen.normal(size=features) / np.sqrt(features)
    return ComparisonData(X, y + chosen.normal(0, noise * y.std(), rows))


def synthetic(rows: int, epochs: int, noise: float = 0.1) -> LinearTask:
    """Return a task of the size of the paper's Synthetic 100: at most 10,000 rows, 100 features."""
    return _task(f"synthetic 100, noise {noise:g}", synthetic_data(min(rows, 10_000), 100, noise), epochs)


def real(name: str, rows: int, epochs: int) -> LinearTask:
    """Return a task with at most `rows` random training rows of a data set.

    Columns of cod-rna are clipped to their 1st and 99th percentile, because their outliers would require scaled weights
    above 8, the limit of the hardware.
    """
    table = load_dataset(name)
    chosen = np.random.default_rng(DATA_SEED).permutation(table.rows)[:rows]
    X = table.X[chosen]
    if name == "cod-rna":
        X = np.clip(X, *np.quantile(X, TAILS, axis=0))
    return _task(name, ComparisonData(X, table.y[chosen]), epochs)


def _task(name: str, data: ComparisonData, epochs: int) -> LinearTask:
    """Return a task with the learning rate for full precision, used for all precisions as in the paper."""
    rate = suggest_learning_rate(data.X, BATCH)
    return LinearTask(name, data, TrainingSchedule(epochs=epochs, batch_size=BATCH, learning_rate=rate, decay=DECAY))


def comparisons(
    task: LinearTask, precisions: Sequence[Precision], seeds: int, device: Device, log: Log
) -> list[Comparison]:
    """Compare full precision with `precisions`, once for each seed, which determines row order and draws."""
    results = []
    for seed in range(seeds):
        log(f"{task.name}: seed {seed + 1} of {seeds}")
        order = np.random.default_rng(seed).permutation(len(task.data.y))
        data = ComparisonData(task.data.X[order], task.data.y[order])
        results.append(compare(data, precisions, replace(task.schedule, seed=seed), device=device, title=task.name))
    return results
