"""What a model begins with: rows of unknown keys get the base rate, and the first rows their mean label."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_textbook import loss_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.base_rate import base_score
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad

DENSE = [SGD(), AdaGrad(), FTRL(l1=0.5, l2=0.1)]


def rows_of_labels(labels: np.ndarray) -> Batch:
    rows = len(labels)
    return Batch(
        np.arange(rows, dtype=np.uint64),
        np.zeros(rows, np.uint16),
        np.ones(rows, np.float32),
        np.arange(rows + 1),
        labels.astype(np.float32),
    )


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_no_other_score_fits_the_labels_better(loss: str, seed: int) -> None:
    """For log loss with half a row of each label beside the others."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 200))
    labels = (rng.random(rows) < rng.random()) if loss == "log_loss" else rng.normal(3, 2, rows)
    found = base_score(loss, labels.astype(np.float32))

    def total(score: float) -> float:
        more = (loss_of(loss, score, 0.0) + loss_of(loss, score, 1.0)) / 2 if loss == "log_loss" else 0.0
        return sum(loss_of(loss, score, float(label)) for label in labels.astype(np.float32)) + more

    assert total(found) <= min(total(found - 1e-3), total(found + 1e-3))


@pytest.mark.parametrize("dense", DENSE, ids=[each.name for each in DENSE])
@pytest.mark.parametrize("kind", ["lr", "fm"])
def test_a_row_of_unknown_keys_is_scored_with_the_base_rate(kind: str, dense: SGD | AdaGrad | FTRL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, rate = int(rng.integers(1, 500)), 10 ** -rng.uniform(0.1, 4)
    labels = rng.random(rows) < rate
    model = SparseModel(ModelSpec(kind, dense=dense))
    model.begin(rows_of_labels(labels))
    unknown = rows_of_labels(np.zeros(1))
    unknown.keys[0] = 12345
    assert model.predict(unknown)[0] == pytest.approx(
        (labels.sum() + 0.5) / (rows + 1), rel=1e-2 if kind == "fm" else 1e-5
    )
    assert model.rows_seen == 0 and len(model.parameters.table) == 0


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_the_first_rows_are_scored_with_their_mean_label(kind: str, loss: str, seed: int) -> None:
    """An FFM too, whose first factors are positive."""
    batch = planted_rows(seed, 300, loss=loss)
    model = SparseModel(ModelSpec(kind, loss, fields=4 if kind == "ffm" else 0, seed=seed % 1000))
    model.begin(batch)
    model.parameters.table.find_or_insert(batch.keys)
    assert float(np.mean(model.scores(batch))) == pytest.approx(base_score(loss, batch.labels), abs=1e-4)


def test_a_model_begins_once_and_before_it_learns(seed: int) -> None:
    clicks, none = rows_of_labels(np.ones(9)), rows_of_labels(np.zeros(9))
    begun, learned, without = (
        SparseModel(ModelSpec("lr")),
        SparseModel(ModelSpec("lr")),
        ModelSpec("lr", intercept=False),
    )
    begun.begin(clicks.slice(0, 0))
    begun.begin(clicks)
    begun.begin(none)
    assert begun.pull_dense()["intercept"] == pytest.approx([math.log(19)])
    learned.learn(none)
    bits = learned.matrices["intercept"].row.tobytes()
    learned.begin(clicks)
    assert learned.matrices["intercept"].row.tobytes() == bits
    SparseModel(without).begin(clicks)


def test_a_label_that_the_loss_does_not_take_is_named() -> None:
    model = SparseModel(ModelSpec("lr"))
    with pytest.raises(DataError, match=r"label of row 1 must be 0 or 1; got 0\.5"):
        model.begin(rows_of_labels(np.array([0, 0.5])))
    model.begin(rows_of_labels(np.ones(1)))
    assert model.pull_dense()["intercept"] == pytest.approx([math.log(3)])
