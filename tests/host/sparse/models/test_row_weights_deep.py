"""A row of weight k is k copies of it in the minibatch of a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_weights import repeated, weighted

from bitlane.sparse.models.deep import Network
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.parameters.unique import unique_keys

pytestmark = pytest.mark.torch

KINDS = ("dnn", "widedeep", "deepfm")
LARGE = 1 << 20


def rows_of(seed: int, rows: int = 40, loss: str = "log_loss"):
    rng = np.random.default_rng(seed)
    return weighted(planted_rows(seed, rows, loss=loss), rng.integers(0, 5, rows))


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_float64(kind: str, loss: str, seed: int) -> None:
    spec = ModelSpec(kind, loss, dim=3, fields=4, hidden=(6, 5), batch_rows=8)
    network, rng = Network(spec, "cpu"), np.random.default_rng(seed)
    batch = rows_of(seed, loss=loss)
    dense = {name: rng.normal(size=shape) for name, shape in network.shapes.items()}
    keys, _ = unique_keys(batch.keys)
    weights = rng.normal(size=(len(keys), 3 + (spec.linear is not None)))
    found, expected = [], []
    for rows, into in ((batch, found), (repeated(batch), expected)):
        index = np.searchsorted(np.sort(keys), rows.keys)
        _, sparse, outer = network.gradients(rows, weights, index, dense)
        into += [sparse, *outer.values()]
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_in_float32(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    optimizers = (FTRL(0.1), AdaGrad(0.1), SGD(0.01, decay=0.1))
    chosen = {name: optimizers[rng.integers(3)] for name in ("linear", "factors", "dense")}
    spec = ModelSpec(kind, dim=3, fields=4, hidden=(6, 5), batch_rows=LARGE, seed=seed % 1000, **chosen)
    models = [SparseModel(spec), SparseModel(spec)]
    for number in range(3):
        batch = rows_of(seed + number)
        for model, rows in zip(models, (batch, repeated(batch)), strict=True):
            model.begin(rows)
            model.learn(rows)
    batch = planted_rows(seed, 50)
    found, expected = (model.scores(batch) for model in models)
    assert np.abs(found - expected).max() <= 2e-6 * max(1.0, np.abs(expected).max())
    nothing = replace(batch, weights=np.zeros(50, np.float32))
    keys, index = unique_keys(batch.keys)
    _, sparse, dense = models[0].gradients(nothing, models[0].parameters.pull(keys), index, models[0].pull_dense())
    assert not sparse.any() and not any(each.any() for each in dense.values())
