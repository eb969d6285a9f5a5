"""What linear models are trained on, and how: the paper's sets that can be had, and stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitlane.contract.precision import Precision
from bitlane.data.datasets import load_dataset
from bitlane.devices import Device
from bitlane.evaluation.compare import Comparison, ComparisonData, compare
from bitlane.evaluation.schedules import DECAY, Schedule, suggest_learning_rate

from ..claim import Log

DATA_SEED = 2017  # not that of the draws
BATCH = 64
WIDTH = 512  # of the emulator's port: the same bits, sooner
TAILS = (0.01, 0.99)
REAL = ("cadata", "cpusmall", "cod-rna", "a9a", "millionsong_6719")


@dataclass(frozen=True)
class Task:
    """Data and the schedule that all precisions share."""

    name: str
    data: ComparisonData
    schedule: Schedule


def synthetic_data(rows: int, features: int, noise: float) -> ComparisonData:
    """Uniform features, normal weights, and noise on the labels of `noise` times their standard deviation."""
    chosen = np.random.default_rng(DATA_SEED)
    X = chosen.uniform(-1, 1, (rows, features))
    y = X @ chosen.normal(size=features) / np.sqrt(features)
    return ComparisonData(X, y + chosen.normal(0, noise * y.std(), rows))


def synthetic(rows: int, epochs: int, noise: float = 0.1) -> Task:
    """The paper's Synthetic 100 in size: at most 10,000 rows, 100 features."""
    return _task(f"synthetic 100, noise {noise:g}", synthetic_data(min(rows, 10_000), 100, noise), epochs)


def real(name: str, rows: int, epochs: int) -> Task:
    """At most `rows` training rows of a data set by name, chosen at random.

    Columns of cod-rna are clipped to their 1st and 99th percentile: their outliers ask for scaled weights beyond 8, the
    largest that the hardware holds.
    """
    table = load_dataset(name)
    chosen = np.random.default_rng(DATA_SEED).permutation(table.rows)[:rows]
    X = table.X[chosen]
    if name == "cod-rna":
        X = np.clip(X, *np.quantile(X, TAILS, axis=0))
    return _task(name, ComparisonData(X, table.y[chosen]), epochs)


def _task(name: str, data: ComparisonData, epochs: int) -> Task:
    """With the rate that suits full precision, for all precisions, as the paper does."""
    rate = suggest_learning_rate(data.X, BATCH)
    return Task(name, data, Schedule(epochs=epochs, batch_size=BATCH, learning_rate=rate, decay=DECAY))


def comparisons(task: Task, precisions: Sequence[Precision], seeds: int, device: Device, say: Log) -> list[Comparison]:
    """The task at full precision and at `precisions`, once a seed: an order of the rows, and draws."""
    found = []
    for seed in range(seeds):
        say(f"{task.name}: seed {seed + 1} of {seeds}")
        order = np.random.default_rng(seed).permutation(len(task.data.y))
        data = ComparisonData(task.data.X[order], task.data.y[order])
        found.append(compare(data, precisions, replace(task.schedule, seed=seed), device=device, title=task.name))
    return found
