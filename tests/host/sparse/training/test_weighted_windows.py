"""Metrics of rows with weights are those of their copies."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.training.checkpoint import TrainingProgress, load, save
from bitlane.sparse.training.evaluation import evaluate
from bitlane.sparse.training.windows import Quality, Scores, measure, pooled, quality_fields


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties, labels and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 200))
    scores = np.round(rng.normal(0, 3, rows), int(rng.integers(0, 3))).astype(np.float32)
    labels = (rng.random(rows) < rng.choice([0.02, 0.5])).astype(np.float32)
    return scores, labels, rng.integers(0, 5, rows).astype(np.float32)


def textbook_auc(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float | None:
    """Pair by pair."""
    won = total = 0.0
    for i in np.flatnonzero(labels > 0):
        for j in np.flatnonzero(labels == 0):
            pair = float(weights[i]) * float(weights[j])
            total += pair
            won += pair * (1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
    return won / total if total else None


def near(one: Quality, other: Quality) -> bool:
    """Whether all but the numbers of rows agree."""
    pairs = zip(astuple(one)[1:-1], astuple(other)[1:-1], strict=True)
    return all(a is b if a is None or b is None else a == pytest.approx(b, rel=1e-6, abs=1e-6) for a, b in pairs)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_weights_are_copies(loss: str, seed: int) -> None:
    scores, labels, weights = drawn(seed)
    copies = np.repeat(np.arange(len(scores)), weights.astype(int))
    found, expected = measure(scores, labels, loss, weights), measure(scores[copies], labels[copies], loss)
    assert near(found, expected)
    assert found.rows == np.count_nonzero(weights) and found.weight == weights.sum() == expected.rows
    if loss == "log_loss":
        assert near(replace(found, auc=textbook_auc(scores, labels, weights)), found)
    fractions = weights / np.float32(7)
    assert near(measure(scores, labels, loss, fractions), found)


def test_windows_pool_by_weight(seed: int) -> None:
    parts = [drawn(seed + number) for number in range(3)]
    scores, labels, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    whole = measure(scores, labels, "log_loss", weights)
    together = pooled([measure(*part[:2], "log_loss", part[2]) for part in parts])
    assert (together.log_loss, together.weight) == pytest.approx((whole.log_loss, whole.weight))
    assert (together.rows, together.mean_label) == pytest.approx((whole.rows, whole.mean_label))


def test_scores_keep_their_weights(tmp_path: Path, seed: int) -> None:
    parts = [drawn(seed + number) for number in range(3)]
    scores = Scores("log_loss")
    for part in parts:
        scores.add(*part)
    whole = [np.concatenate(each) for each in zip(*parts, strict=True)]
    assert all(np.array_equal(one, other) for one, other in zip(scores.arrays(), whole, strict=True))
    assert scores.quality() == measure(whole[0], whole[1], "log_loss", whole[2])
    progress = TrainingProgress()
    progress.scores, progress.labels, progress.weights = scores.arrays()
    again = load(save(tmp_path, progress, lambda folder: None))
    assert again.weights is not None and np.array_equal(again.weights, whole[2])


def test_rows_without_weights_have_no_such_field() -> None:
    assert "weight" not in quality_fields(measure(np.zeros(3, np.float32), np.zeros(3, np.float32), "log_loss"))
    assert measure(np.zeros(2, np.float32), np.zeros(2, np.float32), "log_loss", np.zeros(2, np.float32)) == Quality(
        0, weight=0.0
    )


def test_weights_that_are_all_0_cannot_be_evaluated() -> None:
    none = np.zeros(0)
    batch = Batch(
        none.astype(np.uint64),
        none.astype(np.uint16),
        none.astype(np.float32),
        np.zeros(3, np.int64),
        np.zeros(2, np.float32),
        weights=np.zeros(2, np.float32),
    )
    with pytest.raises(DataError, match="the weights of all rows are 0: there are no rows to evaluate on"):
        evaluate(SparseModel(ModelSpec("lr")), (each for each in [batch]))
