"""Mini-batch SGD in float64 on what a method reads, and how far its gradients are off."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bitlane.evaluation.schedules import Schedule
from bitlane.quantization.scaling import Floats

from .methods import Method
from .tasks import Task

BLOCK = 1024  # rows read at a time, about
READINGS = 4  # of every row, for bias and noise


def train(method: Method, task: Task, schedule: Schedule, seed: int) -> tuple[Floats, float]:
    """The last model, float64 [n + 1], and the share of rows that were fetched, over all epochs.

    From 0, as `baseline.float_models` does it; `seed` decides the order of the rows, for all methods alike, and the
    draws, new ones in each epoch. A training that diverges ends with infinities.
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
    method: Method, exact: Method, task: Task, weights: Floats, rng: np.random.Generator
) -> tuple[float, float]:
    """Bias and noise of one row's gradient at a model [n + 1], in units of a gradient's root mean square.

    The length of the mean error against the slopes of `exact` on unquantized rows, and the root mean square error.
    Chance alone makes a bias of about noise / sqrt(`READINGS` * rows).
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
    """Copies [copies, rows, n + 1] of so many rows at a time, with the column of 1, and which rows they are."""
    for start in range(0, len(values), rows):
        some = slice(start, start + rows)
        read = method.read(values[some, :-1], rng)
        yield np.concatenate([read, np.ones((*read.shape[:2], 1))], axis=2), some
