"""Miscalibrated scores as rows of a model, and textbooks of calibrators in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.helpers.sparse_serving import SmallModel

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec

Drawn = tuple[np.ndarray, np.ndarray]


def miscalibrated(seed: int, rows: int, ties: bool = False) -> Drawn:
    """Scores whose true log odds are another line, or a curve, of them, and labels.

    A tenth of them or more is 0, and 1, and those of higher scores are more often 1.
    """
    draw = np.random.default_rng(seed)
    while True:
        scores = draw.normal(draw.normal(), draw.uniform(0.5, 3), rows)
        if ties:
            scores = np.round(scores)
        true = draw.uniform(0.5, 2) * scores + draw.normal() + draw.choice([0, 1]) * np.tanh(scores)
        labels = draw.random(rows) < 1 / (1 + np.exp(-true))
        if 0.1 <= labels.mean() <= 0.9 and scores[labels].mean() > scores[~labels].mean() + 0.1:
            return scores.astype(np.float32), labels.astype(np.float32)


def model_of(scores: np.ndarray, labels: np.ndarray, loss: str = "log_loss") -> tuple[SmallModel, Batch]:
    """A model that has these scores, and the rows: each has one key, whose weight is its score."""
    names, keys = np.unique(scores, return_inverse=True)
    model = SmallModel(
        ModelSpec("lr", loss, intercept=False), {int(key): names[key : key + 1] for key in range(len(names))}
    )
    count = len(scores)
    ones, offsets = np.ones(count, np.float32), np.arange(count + 1)
    return model, Batch(keys.astype(np.uint64), np.zeros(count, np.uint16), ones, offsets, labels)


def newton_line(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of Platt's fit, by Newton's steps with halving, in float64."""
    z, ones = scores.astype(np.float64), float(labels.sum())
    targets = np.where(labels > 0, (ones + 1) / (ones + 2), 1 / (len(labels) - ones + 2))

    def loss(line: np.ndarray) -> float:
        logits = line[0] * z + line[1]
        return float((np.logaddexp(0, logits) - targets * logits).sum())

    line = np.array([0.0, math.log((ones + 1) / (len(labels) - ones + 1))])
    for _ in range(200):
        p = 1 / (1 + np.exp(-(line[0] * z + line[1])))
        slope = np.array([((p - targets) * z).sum(), (p - targets).sum()])
        w = p * (1 - p)
        step = np.linalg.solve([[(w * z * z).sum(), (w * z).sum()], [(w * z).sum(), w.sum()]], slope)
        size = 1.0
        while loss(line - size * step) > loss(line) and size > 1e-9:
            size /= 2
        line = line - size * step
    return float(line[0]), float(line[1])


def pooled(scores: np.ndarray, labels: np.ndarray) -> dict[float, float]:
    """The isotonic probability of each score: pool adjacent violators, one score after the other."""
    blocks: list[list[float]] = []  # sum of labels, rows, scores
    for score in sorted(set(scores.tolist())):
        same = labels[scores == np.float32(score)]
        blocks.append([float(same.sum()), len(same), 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [one + other for one, other in zip(blocks[-1], last, strict=True)]
    means = [total / rows for total, rows, count in blocks for _ in range(int(count))]
    return dict(zip(sorted(set(scores.tolist())), means, strict=True))


def textbook_probability(record: Mapping[str, Any], score: float) -> float:
    """The calibrated probability of a score by the record of a calibrator, in float64."""
    if record["kind"] == "platt":
        return 1 / (1 + math.exp(-(record["slope"] * score + record["intercept"])))
    knots = list(zip(record["scores"], record["probabilities"], strict=True))
    if score <= knots[0][0]:
        return knots[0][1]
    for (left, low), (right, high) in itertools.pairwise(knots):
        if score <= right:
            return low + (high - low) * (score - left) / (right - left)
    return knots[-1][1]
