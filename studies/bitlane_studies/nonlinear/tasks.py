"""Classification tasks with two classes, scaled for training with hinge or log_loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitlane.data.catalog import find_dataset
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.scaling import Floats, fit_scaling
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.options import DECAY

SYNTHETIC = "synthetic"
EPOCHS, BATCH = 20, 64


@dataclass(frozen=True)
class ClassificationTask:
    """Scaled, unquantized rows of two classes.

    Attributes
    ----------
    name : str
    values : float64 array of shape (rows, n + 1)
        Values in [-1, 1]. The last column is 1, for the intercept, and is not stored.
    labels : float64 array of shape (rows,)
        -1 and 1.
    held_out : (values, labels)
        Rows for the accuracy, not used in training.
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
        """Number of stored features, n."""
        return int(self.values.shape[1] - 1)


def make_task(name: str, X: Floats, y: Floats, held_out: tuple[Floats, Floats]) -> ClassificationTask:
    """Scale a data set.

    Parameters
    ----------
    name : str
    X : float64 array of shape (rows, n)
        Features in user units.
    y : float64 array of shape (rows,)
        Labels -1 and 1.
    held_out : (X, y)
        Held-out rows in user units.

    Returns
    -------
    ClassificationTask

    Raises
    ------
    DataError
        If the labels are not -1 and 1.
    """
    if not np.array_equal(np.unique(y), (-1, 1)):
        raise DataError(f"{name}: labels must be -1 and 1, with rows of both: hinge and log_loss need two classes")
    scaling = fit_scaling(X, y[:, None], margins=True, intercept_value=1.0)
    return ClassificationTask(name, scaling.values(X), y, (scaling.values(held_out[0]), held_out[1]))


def load_task(name: str) -> ClassificationTask:
    """Load a data set with two classes and held-out rows by name, or make `synthetic`.

    Raises
    ------
    DataError
        If there is no such data set, or if it lacks two classes or held-out rows.
    """
    if name == SYNTHETIC:
        return synthetic()
    if find_dataset(name).task != "binary":
        raise DataError(f"data set {name!r} does not have two classes: hinge and log_loss need two")
    table = load_dataset(name)
    if table.held_out is None:
        raise DataError(f"data set {name!r} has no held-out rows; the accuracy needs them")
    return make_task(name, table.X, table.y, table.held_out)


def synthetic(rows: int = 20_000, features: int = 32, seed: int = 0) -> ClassificationTask:
    """Make a task with uniform features and the labels of a logistic model; a quarter of the rows is held out.

    Parameters
    ----------
    rows : int, default=20000
    features : int, default=32
    seed : int, default=0

    Returns
    -------
    ClassificationTask
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, features))
    scores = X @ rng.normal(0, 6 / np.sqrt(features), features)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
    split = 3 * rows // 4
    return make_task(SYNTHETIC, X[:split], y[:split], (X[split:], y[split:]))


def schedule_of(task: ClassificationTask, loss: str) -> TrainingSchedule:
    """Return the schedule of all trainings; its learning rate suits full precision and is not tuned to any method.

    Parameters
    ----------
    task : ClassificationTask
    loss : {"hinge", "log_loss"}

    Returns
    -------
    TrainingSchedule
    """
    rate = suggest_learning_rate(task.values[:, :-1], BATCH, loss=loss)
    return TrainingSchedule(epochs=EPOCHS, batch_size=BATCH, learning_rate=rate, decay=DECAY, loss=loss)
