"""A row of weight k is k copies of it in the same minibatch: by a textbook, and for each model and optimizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_weights import MinibatchTextbook, repeated, weighted

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.base_rate import base_score
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings

LARGE = 1 << 20  # rows of a minibatch, more than any test has
OPTIMIZERS = (FTRL(0.2, l1=0.01, l2=0.01), AdaGrad(0.2, l2=0.001), SGD(0.02, decay=0.1, l1=0.001))


def spec_of(kind: str, rng: np.random.Generator, **settings) -> ModelSpec:
    optimizers = {name: OPTIMIZERS[rng.integers(3)] for name in ("linear", "factors", "dense")}
    loss = "squared_error" if rng.random() < 0.3 else "log_loss"
    fields = {"fields": 4} if kind == "ffm" else {}
    return ModelSpec(kind, loss, dim=3, seed=int(rng.integers(2**32)), **{**optimizers, **fields, **settings})


def rows_of(seed: int, spec: ModelSpec, rows: int, zeros: float = 0.2) -> Batch:
    rng = np.random.default_rng(seed)
    batch = planted_rows(seed, rows, repeat=0.0, loss=spec.loss)
    return weighted(batch, rng.integers(1, 6, rows) * (rng.random(rows) >= zeros))


def near(one, other) -> bool:
    """Whether float32 numbers are equal to 1e-6 of the largest of them."""
    return bool(np.abs(one - other).max(initial=0) <= 1e-6 * max(1.0, np.abs(other).max(initial=0)))


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_weights_are_copies_in_a_minibatch(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    spec = spec_of(kind, rng, batch_rows=LARGE)
    books, models = [MinibatchTextbook(spec) for _ in range(2)], [SparseModel(spec) for _ in range(2)]
    for number in range(3):
        batch = rows_of(seed + number, spec, int(rng.integers(1, 30)))
        if not batch.total_weight:
            continue
        copies = repeated(batch)
        kept = batch.take(np.flatnonzero(batch.weights))
        exact, again = books[0].learn(kept), books[1].learn(copies)
        index = np.repeat(np.arange(kept.rows), kept.weights.astype(np.int64))
        assert exact[index].tobytes() == again.tobytes(), "in bits, in float64"
        found, expected = models[0].learn(batch), models[1].learn(copies)
        assert near(found[batch.weights > 0][index], expected)
        assert np.allclose(found[batch.weights > 0], exact, atol=1e-4, rtol=1e-4)
    batch = planted_rows(seed, 50)
    assert len(models[0].parameters.table) == len(models[1].parameters.table), "rows of weight 0 bring no keys"
    assert near(models[0].scores(batch), models[1].scores(batch))
    assert models[0].rows_seen + models[0].surplus == models[1].rows_seen


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_row_by_row_a_weight_is_one_step(kind: str, seed: int) -> None:
    """One step with k times the gradient: a minibatch of k copies for each row."""
    rng = np.random.default_rng(seed)
    spec = spec_of(kind, rng)
    batch = rows_of(seed, spec, 40)
    one, other = SparseModel(spec), SparseModel(replace(spec, batch_rows=LARGE))
    found = one.learn(batch)
    for row in range(batch.rows):
        copies = repeated(batch.slice(row, row + 1))
        if copies.rows:
            assert abs(float(found[row]) - float(other.learn(copies)[0])) <= 1e-5 * max(1.0, abs(float(found[row])))
    assert np.allclose(one.scores(batch), other.scores(batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
@pytest.mark.parametrize("batch_rows", [1, 7])
def test_weights_of_1_change_no_bit(kind: str, batch_rows: int, seed: int) -> None:
    spec = spec_of(kind, np.random.default_rng(seed), batch_rows=batch_rows)
    batch = planted_rows(seed, 60, loss=spec.loss)
    models = [SparseModel(spec), SparseModel(spec)]
    scores = []
    for model, rows in zip(models, (batch, weighted(batch, np.ones(60))), strict=True):
        model.begin(rows)
        scores.append(np.concatenate([model.learn(rows), model.scores(batch)]))
    assert scores[0].tobytes() == scores[1].tobytes()


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_intercept_begins_with_the_weighted_base_rate(loss: str, seed: int) -> None:
    spec = ModelSpec("lr", loss)
    batch = rows_of(seed, spec, 50)
    one, other = SparseModel(spec), SparseModel(spec)
    one.begin(batch)
    other.begin(repeated(batch))
    assert one.pull_dense()["intercept"] == other.pull_dense()["intercept"]
    assert base_score(loss, batch.labels, batch.weights) == base_score(loss, repeated(batch).labels)


def test_statistics_count_weights(seed: int) -> None:
    settings = StatisticsSettings((0, 1), 4, ("rate", "count", "clicks"), half_life=30, batch_rows=LARGE)
    models = [EnrichedModel(SparseModel(ModelSpec("lr", batch_rows=LARGE)), Statistics(settings)) for _ in range(2)]
    for number in range(4):
        batch = rows_of(seed + number, ModelSpec("lr"), 25)
        found, expected = models[0].learn(batch), models[1].learn(repeated(batch))
        index = np.repeat(np.arange(batch.rows), batch.weights.astype(np.int64))
        assert np.allclose(found[index], expected, rtol=1e-5, atol=1e-5)
    assert models[0].statistics.totals() == pytest.approx(models[1].statistics.totals())


def test_bad_weights_name_the_row(seed: int) -> None:
    batch = planted_rows(seed, 5)
    for wrong in (-1.0, np.nan, np.inf):
        model = SparseModel(ModelSpec("lr"))
        rows = weighted(batch, [1, 1, 1, wrong, 1])
        for call in (model.learn, model.begin):
            with pytest.raises(DataError, match=r"weight of row 3 must be finite and at least 0; got"):
                call(rows)
        assert model.rows_seen == 0 and len(model.parameters.table) == 0


def test_long_steps_of_sgd_are_told(seed: int) -> None:
    batch = weighted(planted_rows(seed, 20), [5000] + [1] * 19)
    with pytest.warns(UserWarning, match=r"weight 5000: its step of sgd with learning rate 0.01 may overshoot"):
        SparseModel(ModelSpec("lr")).begin(batch)


def test_a_model_keeps_the_weight_of_its_rows(tmp_path: Path, seed: int) -> None:
    spec = ModelSpec("lr", linear=SGD(0.1, decay=0.01), dense=SGD(0.1, decay=0.01))
    batch = rows_of(seed, spec, 40, zeros=0)
    model = SparseModel(spec)
    model.learn(batch.slice(0, 20))
    model.save(tmp_path)
    again = SparseModel.load(tmp_path)
    assert model.learn(batch.slice(20, 40)).tobytes() == again.learn(batch.slice(20, 40)).tobytes()
    assert model.scores(batch).tobytes() == again.scores(batch).tobytes()
