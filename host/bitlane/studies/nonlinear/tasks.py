"""Scaled rows of two classes, to be told apart by hinge or log_loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.data.catalog import find_dataset
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError
from bitlane.evaluation.schedules import DECAY, Schedule, suggest_learning_rate
from bitlane.quantization.scaling import Floats, fit_scaling

SYNTHETIC = "synthetic"
EPOCHS, BATCH = 20, 64


@dataclass(frozen=True)
class Task:
    """Rows as training scales them, unquantized.

    values: float64 [rows, n + 1] in [-1, 1], the last column 1: the intercept's, which is not stored.
    labels: float64 [rows], -1 and 1. held_out: values and labels that are not trained on.
    """

    name: str
    values: Floats
    labels: Floats
    held_out: tuple[Floats, Floats]

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def features(self) -> int:
        """Those that are stored, n."""
        return int(self.values.shape[1] - 1)


def make_task(name: str, X: Floats, y: Floats, held_out: tuple[Floats, Floats]) -> Task:
    """X [rows, n] in user units and y [rows] scaled. DataError for labels other than -1 and 1."""
    if not np.array_equal(np.unique(y), (-1, 1)):
        raise DataError(f"{name}: labels must be -1 and 1, with rows of both: hinge and log_loss separate two classes")
    scaling = fit_scaling(X, y[:, None], margins=True, intercept_value=1.0)
    return Task(name, scaling.values(X), y, (scaling.values(held_out[0]), held_out[1]))


def load_task(name: str) -> Task:
    """A data set of two classes with held-out rows by its name, or `synthetic`. DataError where there is none."""
    if name == SYNTHETIC:
        return synthetic()
    if find_dataset(name).task != "binary":
        raise DataError(f"data set {name!r} does not have two classes: hinge and log_loss separate two")
    table = load_dataset(name)
    if table.held_out is None:
        raise DataError(f"data set {name!r} has no held-out rows, which the accuracy needs")
    return make_task(name, table.X, table.y, table.held_out)


def synthetic(rows: int = 20_000, features: int = 32, seed: int = 0) -> Task:
    """Uniform features, and labels that are 1 with the probability of a logistic model; a quarter is held out."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, features))
    scores = X @ rng.normal(0, 6 / np.sqrt(features), features)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    kept = 3 * rows // 4
    return make_task(SYNTHETIC, X[:kept], y[:kept], (X[kept:], y[kept:]))


def schedule_of(task: Task, loss: str) -> Schedule:
    """What all trainings share: the learning rate suits full precision, and is not tuned to any method."""
    rate = suggest_learning_rate(task.values[:, :-1], BATCH, loss=loss)
    return Schedule(epochs=EPOCHS, batch_size=BATCH, learning_rate=rate, decay=DECAY, loss=loss)
