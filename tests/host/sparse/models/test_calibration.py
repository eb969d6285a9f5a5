"""Minibatches of any size at any click rate: the scores of a textbook, calibrated, and as good as row by row."""

from __future__ import annotations

import math

import numpy as np
from tests.helpers.sparse_textbook import BOOKS

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.losses import mean_loss
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import AdaGrad

CLICKS, MOST_ROWS, FIELDS = 300, 12_000, 3


def click_rows(rng: np.random.Generator) -> Batch:
    """Rows of three keys with planted weights, and clicks of a random rate."""
    rate, keys = 10 ** -rng.uniform(0.3, 2.0), int(rng.integers(10, 400))
    rows = min(int(CLICKS / rate), MOST_ROWS)
    weights = rng.normal(0, 0.5, (FIELDS, keys))
    chosen = (keys * rng.random((rows, FIELDS)) ** 2).astype(np.int64)
    score = math.log(rate / (1 - rate)) + sum(weights[f, chosen[:, f]] for f in range(FIELDS))
    labels = rng.random(rows) < 1 / (1 + np.exp(-score))
    return Batch(
        (chosen + keys * np.arange(FIELDS)).reshape(-1).astype(np.uint64),
        np.tile(np.arange(FIELDS, dtype=np.uint16), rows),
        np.ones(rows * FIELDS, np.float32),
        np.arange(rows + 1) * FIELDS,
        labels.astype(np.float32),
    )


def textbook_scores(batch: Batch, batch_rows: int, first_rows: int) -> np.ndarray:
    """LR by FTRL with an intercept by AdaGrad, in float64: a minibatch adds gradients up and takes one step of each."""
    clicks = float(batch.labels[:first_rows].sum())
    bias = BOOKS["adagrad"](0.1)
    bias.start_at(math.log((clicks + 0.5) / (first_rows - clicks + 0.5)))
    weights = {int(key): BOOKS["ftrl"](0.3) for key in batch.keys}
    keys, scores = batch.keys.reshape(-1, FIELDS).tolist(), np.empty(batch.rows)
    for start in range(0, batch.rows, batch_rows):
        sums: dict[int, float] = {}
        total = 0.0
        for row in range(start, min(start + batch_rows, batch.rows)):
            scores[row] = bias.weight + sum(weights[key].weight for key in keys[row])
            slope = 1 / (1 + math.exp(-scores[row])) - float(batch.labels[row])
            total += slope
            for key in keys[row]:
                sums[key] = sums.get(key, 0.0) + slope
        bias.step(total)
        for key, gradient in sums.items():
            weights[key].step(gradient)
    return scores


def test_minibatches_are_a_textbooks_calibrated_and_as_good_as_row_by_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = click_rows(rng)
    batch_rows = int(2 ** rng.uniform(1, 9))
    first_rows = int(rng.integers(batch.rows // 4, batch.rows))
    model, online = (
        SparseModel(ModelSpec("lr", batch_rows=batch_rows)),
        SparseModel(ModelSpec("lr", dense=AdaGrad(0.1))),
    )
    for each in (model, online):
        each.begin(batch.slice(0, first_rows))
    scores = model.learn(batch)
    assert np.allclose(scores, textbook_scores(batch, batch_rows, first_rows), rtol=1e-3, atol=1e-3)
    clicks = float(np.sum(1 / (1 + np.exp(-scores.astype(np.float64)))))
    assert 0.7 < clicks / float(batch.labels.sum()) < 1.4
    by_rows = mean_loss("log_loss", online.learn(batch), batch.labels)
    assert mean_loss("log_loss", scores, batch.labels) < 1.1 * by_rows
