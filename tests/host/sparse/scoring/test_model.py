"""Scores of frozen models: the textbook's, and those of the model that was frozen."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.frozen_tables import request_of
from tests.helpers.sparse_models import planted_rows, total_loss

pytest.importorskip("numba")

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.tables.frozen import freeze

SPECS = [
    ModelSpec("lr"),
    ModelSpec("lr", loss="squared_error"),
    ModelSpec("fm", dim=4, initial_scale=0.1),
    ModelSpec("ffm", fields=4),
    ModelSpec("ffm", fields=5, dim=2, linear=ModelSpec("lr").linear, intercept=True, normalise=False),
]


def frozen_model(model: SparseModel) -> FrozenModel:
    parameters = model.parameters
    chunks = ((keys, parameters.weights_of(rows)) for keys, rows in parameters.table.items())
    table = freeze(chunks, len(parameters.table), parameters.layout.values)
    return FrozenModel(model.spec, LayeredTable(table), model.pull_dense(), 3)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.kind}-{spec.loss}-{spec.normalise}")
def test_scores_are_those_of_the_textbook(spec, seed):
    batch = planted_rows(seed, 300, loss=spec.loss)
    model = SparseModel(spec)
    model.learn(batch.slice(0, 200))
    frozen = frozen_model(model)
    found = frozen.scores(batch)
    np.testing.assert_allclose(found, model.scores(batch), rtol=2e-5, atol=2e-6)
    weights = model.parameters.pull(batch.keys).astype(np.float64)
    known = np.where(model.parameters.table.find(batch.keys) >= 0, np.arange(batch.nnz), -1)
    bias = float(model.pull_dense()["intercept"][0]) if spec.intercept else 0.0
    # a loss tells the score: of label 0 and squared error s^2 / 2, of log loss log(1 + e^s)
    for r in range(200, 230):
        row = batch.slice(r, r + 1)
        row = Batch(row.keys, row.fields, row.values, row.offsets, np.zeros(1, np.float32))
        part = slice(batch.offsets[r], batch.offsets[r + 1])
        index = np.where(known[part] >= 0, np.arange(row.nnz), -1)
        loss = total_loss(spec, row, weights[part], index, bias)
        score = float(found[r])
        expected = score**2 / 2 if spec.loss == "squared_error" else np.logaddexp(0, score)
        assert loss == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_rows_without_known_keys_have_the_intercept(seed):
    model = SparseModel(ModelSpec("lr"))
    model.learn(planted_rows(seed, 50))
    frozen = frozen_model(model)
    empty = request_of([], [0, 0, 0])
    bias = model.pull_dense()["intercept"][0]
    np.testing.assert_array_equal(frozen.scores(empty), np.full(3, bias))
    unknown = request_of([98, 99], [1, 1])
    np.testing.assert_array_equal(frozen.scores(unknown), np.full(2, bias))
    assert len(frozen.predict(empty.slice(0, 0))) == 0


def test_a_field_above_the_models_last_is_refused(seed):
    frozen = frozen_model(SparseModel(ModelSpec("ffm", fields=2)))
    with pytest.raises(DataError, match="exceeds the model's largest, 1"):
        frozen.scores(planted_rows(seed, 50))


def test_predictions_are_probabilities(seed):
    batch = planted_rows(seed, 100)
    model = SparseModel(ModelSpec("lr"))
    model.learn(batch)
    frozen = frozen_model(model)
    np.testing.assert_allclose(frozen.predict(batch), 1 / (1 + np.exp(-frozen.scores(batch).astype(float))), rtol=1e-6)
