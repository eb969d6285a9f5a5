"""LR, FM and FFM against textbooks: scores, gradients, online steps, one epoch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import numeric_gradients, planted_rows, textbook_of, total_loss

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.losses import mean_loss
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.shallow import Shallow
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.unique import unique_keys

PENALIZED = AdaGrad(0.1, l1=1e-4, l2=1e-3)
SPECS = [
    ModelSpec("lr"),
    ModelSpec("lr", linear=SGD(0.1, 1e-3, l1=1e-4, l2=1e-3), dense=FTRL(l1=0.01), loss="squared_error"),
    ModelSpec("fm", dim=4, initial_scale=0.1),
    ModelSpec("fm", dim=3, linear=PENALIZED, factors=FTRL(0.1, l1=1e-3), dense=AdaGrad(), loss="squared_error"),
    ModelSpec("fm", dim=32, linear=SGD(0.05), factors=SGD(0.05, 1e-4), intercept=False),
    ModelSpec("ffm", fields=4, intercept=False),
    ModelSpec("ffm", fields=5, dim=2, linear=FTRL(), factors=FTRL(0.2), intercept=True, normalise=False),
]


def name_of(spec: ModelSpec) -> str:
    optimizers = [each.name for each in (spec.linear, spec.factors) if each is not None]
    return "-".join([spec.kind, str(spec.dim), *optimizers[: 1 if spec.kind == "lr" else 2]])


each_spec = pytest.mark.parametrize("spec", SPECS, ids=name_of)


def rows_for(spec: ModelSpec, seed: int, rows: int) -> Batch:
    return planted_rows(seed, rows, loss=spec.loss)


@each_spec
def test_gradients_are_the_finite_differences_of_the_textbook_loss(spec: ModelSpec, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = planted_rows(seed, 6, keys=32, repeat=0.6, loss=spec.loss)
    part = Shallow(spec)
    keys, index = unique_keys(batch.keys)
    index[rng.random(len(index)) < 0.1] = -1
    values = sum(block.size for block in spec.blocks())
    weights = rng.normal(size=(len(keys), values)) * 0.3
    bias = {"intercept": np.array([0.3])} if spec.intercept else {}
    scores, gradients, dense = part.gradients(batch, weights, index, bias)
    expected, by_bias = numeric_gradients(spec, batch, weights, index, 0.3 if bias else 0.0)
    assert scores.dtype == gradients.dtype == np.float64
    assert np.allclose(gradients, expected, rtol=1e-5, atol=1e-7)
    assert list(dense) == list(bias)
    if bias:
        assert dense["intercept"] == pytest.approx(by_bias, rel=1e-5, abs=1e-7)
    assert np.array_equal(part.scores(batch, weights, index, bias), scores)
    loss = total_loss(spec, batch, weights, index, 0.3 if bias else 0.0)
    assert mean_loss(spec.loss, scores, batch.labels) == pytest.approx(loss / batch.rows, rel=1e-9)


def by_minibatches_of_one(model: SparseModel, batch: Batch) -> np.ndarray:
    """What a worker and its servers do, with one row at a time."""
    scores = []
    for r in range(batch.rows):
        row = batch.slice(r, r + 1)
        keys, index = unique_keys(row.keys)
        weights = model.parameters.pull(keys, create=True)
        score, sparse, dense = model.gradients(row, weights, index, model.pull_dense())
        model.parameters.push(keys, sparse, r)
        for name, gradient in dense.items():
            model.matrices[name].push(gradient, r)
        scores.append(score)
    return np.concatenate(scores)


@each_spec
def test_online_has_the_bits_of_minibatches_of_one_row(spec: ModelSpec, seed: int) -> None:
    repeat = 0.0 if spec.kind == "ffm" else 0.3  # features beside others of their field: see `models/ffm.py`
    batch = planted_rows(seed, 300, repeat=repeat, loss=spec.loss)
    online, pushed = SparseModel(spec), SparseModel(spec)
    assert np.array_equal(online.learn(batch), by_minibatches_of_one(pushed, batch))
    keys, _ = unique_keys(batch.keys)
    assert np.array_equal(online.parameters.pull(keys), pushed.parameters.pull(keys))
    assert all(np.array_equal(online.pull_dense()[name], each) for name, each in pushed.pull_dense().items())
    assert np.array_equal(online.scores(batch), pushed.scores(batch))


@each_spec
def test_the_loss_of_an_epoch_is_the_textbooks(spec: ModelSpec, seed: int) -> None:
    batch = rows_for(spec, seed, 600)
    loss = mean_loss(spec.loss, SparseModel(spec).learn(batch), batch.labels)
    expected = textbook_of(spec).epoch(batch)
    assert abs(loss - expected) < 1e-5 * max(1, expected)


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_the_loss_of_an_epoch_on_goodbooks_is_the_textbooks(kind: str, seed: int, data_dir: Path) -> None:
    with np.load(data_dir / "goodbooks.npz") as file:
        offsets = file["offsets"]
        first = np.random.default_rng(seed).integers(0, len(offsets) - 2001)
        part = slice(offsets[first], offsets[first + 2000])
        labels = file["labels"][first : first + 2000].astype(np.float32)
        fields = file["fields"][part].astype(np.uint16)
        values = np.ones(len(fields), np.float32)
        batch = Batch(file["keys"][part], fields, values, offsets[first : first + 2001] - offsets[first], labels)
    spec = ModelSpec(kind, fields=5, dim=4)
    loss = mean_loss("log_loss", SparseModel(spec).learn(batch), batch.labels)
    assert abs(loss - textbook_of(spec).epoch(batch)) < 1e-5


@each_spec
def test_what_a_batch_is_cut_into_does_not_matter_online(spec: ModelSpec, seed: int) -> None:
    batch = rows_for(spec, seed, 200)
    cuts = [0, *sorted(np.random.default_rng(seed).integers(0, 200, 4)), 200]
    whole, parts = SparseModel(spec), SparseModel(spec)
    scores = [parts.learn(batch.slice(*cut)) for cut in pairwise(cuts)]
    assert np.array_equal(whole.learn(batch), np.concatenate(scores))
    assert np.array_equal(whole.scores(batch), parts.scores(batch))


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[2], SPECS[6]], ids=name_of)
def test_unknown_keys_contribute_nothing(spec: ModelSpec, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = rows_for(spec, seed, 100)
    model = SparseModel(spec)
    model.learn(batch)
    unknown = rng.random(batch.nnz) < 0.3
    keys = np.where(unknown, rng.integers(0, 2**64, batch.nnz, dtype=np.uint64), batch.keys)
    with_unknown = Batch(keys, batch.fields, batch.values, batch.offsets, batch.labels)
    rows = np.repeat(np.arange(100), np.diff(batch.offsets))[~unknown]
    offsets = np.searchsorted(rows, np.arange(101)).astype(np.int64)
    without = Batch(keys[~unknown], batch.fields[~unknown], batch.values[~unknown], offsets, batch.labels)
    before = len(model.parameters.table)
    assert np.array_equal(model.scores(with_unknown), model.scores(without))
    assert len(model.parameters.table) == before


def test_an_ffm_divides_by_unknown_features_too(seed: int) -> None:
    batch = rows_for(SPECS[5], seed, 50)
    model = SparseModel(ModelSpec("ffm", fields=5, intercept=False))
    model.learn(batch)
    lengths = np.diff(batch.offsets)
    at = batch.offsets[1:]
    more = Batch(
        np.insert(batch.keys, at, np.uint64(12345)),
        np.insert(batch.fields, at, 4).astype(np.uint16),
        np.insert(batch.values, at, 2.0).astype(np.float32),
        np.concatenate([[0], np.cumsum(lengths + 1)]),
        batch.labels,
    )
    squares = np.add.reduceat(np.append(batch.values, 0).astype(np.float64) ** 2, batch.offsets[:-1]) * (lengths > 0)
    assert np.allclose(model.scores(more), model.scores(batch) * squares / (squares + 4), rtol=1e-5, atol=1e-7)


def test_a_field_above_the_limit_is_named_and_nothing_is_learned(seed: int) -> None:
    batch = rows_for(SPECS[5], seed, 20)
    model = SparseModel(ModelSpec("ffm", fields=3))
    for method in (model.learn, model.scores):
        with pytest.raises(DataError, match="field 3 exceeds the model's largest, 2; set fields=4"):
            method(batch)
    assert len(model.parameters.table) == 0 and model.rows_seen == 0


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[2], SPECS[5]], ids=name_of)
def test_empty_rows_and_empty_batches_are_taken(spec: ModelSpec) -> None:
    nothing = np.zeros(0, np.uint64), np.zeros(0, np.uint16), np.zeros(0, np.float32)
    model = SparseModel(spec)
    assert len(model.learn(Batch(*nothing, np.zeros(1, np.int64), np.zeros(0, np.float32)))) == 0
    assert model.learn(Batch(*nothing, np.zeros(3, np.int64), np.ones(2, np.float32)))[0] == 0
    assert model.rows_seen == 2
