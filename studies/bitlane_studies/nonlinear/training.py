"""Mini-batch SGD in float64 on the copies that a method reads, and the errors of its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.quantization.scaling import Floats

from .methods import Method
from .tasks import ClassificationTask

BLOCK = 1024  # rows per read, rounded up to complete batches
READINGS = 4  # reads of every row, to measure bias and noise


def train(method: Method, task: ClassificationTask, schedule: TrainingSchedule, seed: int) -> tuple[Floats, float]:
    """Train from zero weights, as `baseline.float_models` does.

    Every epoch uses new draws. A training that diverges ends with infinite weights.

    Parameters
    ----------
    method : Method
    task : ClassificationTask
    schedule : TrainingSchedule
    seed : int
        Seed of the draws and of the row order, which is the same for all methods.

    Returns
    -------
    weights : float64 array of shape (n + 1,)
        The final model.
    fetched : float
        Share of rows that were fetched at full precision, over all epochs.
    """
    order, rng = np.random.default_rng((seed, 0)).permutation(task.rows), np.random.default_rng((seed, 1))
    values, labels = task.values[order], task.labels[order]
    weights, rate, fetched, size = np.zeros(values.shape[1]), schedule.learning_rate, 0, schedule.batch_size
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(schedule.epochs):
            for copies, rows in _readings(method, values, rng, math.ceil(BLOCK / size) * size):
                for start in range(0, copies.shape[1], size):
                    batch, truth = copies[:, start : start + size], labels[rows][start : start + size]
                    slopes, some = method.slopes(batch @ weights, truth, weights[:-1])
                    weights = weights - rate / size * sum(s @ copy for s, copy in zip(slopes, batch, strict=True))
                    fetched += some
            rate *= schedule.decay
    return weights, fetched / (schedule.epochs * task.rows)


def gradient_errors(
    method: Method, exact: Method, task: ClassificationTask, weights: Floats, rng: np.random.Generator
) -> tuple[float, float]:
    """Measure the bias and the noise of the gradient of one row.

    The error is the difference from the gradient of `exact` on the unquantized row. The bias is the norm of the mean
    error, and the noise is the root mean square error, both divided by the root mean square of the exact gradient. An
    unbiased method shows a bias of about noise / sqrt(`READINGS` * rows).

    Parameters
    ----------
    method, exact : Method
    task : ClassificationTask
    weights : float64 array of shape (n + 1,)
        The model.
    rng : numpy.random.Generator

    Returns
    -------
    bias, noise : float
    """
    total, squares, energy = np.zeros(len(weights)), 0.0, 0.0
    for _ in range(READINGS):
        for copies, rows in _readings(method, task.values, rng, BLOCK):
            values, labels = task.values[rows], task.labels[rows]
            slopes, _ = method.slopes(copies @ weights, labels, weights[:-1])
            true = exact.slopes((values @ weights)[None], labels, weights[:-1])[0].T * values
            errors = np.einsum("kr,krn->rn", slopes, copies) - true
            total += errors.sum(axis=0)
            squares += float((errors**2).sum())
            energy += float((true**2).sum())
    count = READINGS * task.rows
    return float(np.linalg.norm(total)) / math.sqrt(energy * count), math.sqrt(squares / energy)


def _readings(method: Method, values: Floats, rng: np.random.Generator, rows: int) -> Iterator[tuple[Floats, slice]]:
    """Yield the copies [copies, rows, n + 1] of each block of rows, with a last column of 1, and the block's slice."""
    for start in range(0, len(values), rows):
        some = slice(start, start + rows)
        read = method.read(values[some, :-1], rng)
        yield np.concatenate([read, np.ones((*read.shape[:2], 1))], axis=2), some
