"""Networks against torch's autograd of a textbook network in float64, finite differences, and FM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.base_rate import base_score
from bitlane.sparse.models.deep import Network
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.optimizers import SGD, AdaGrad

pytestmark = pytest.mark.torch

KINDS = ("dnn", "widedeep", "deepfm")
FIELDS, DIM = 3, 4


def make_spec(kind, **settings):
    return ModelSpec(kind, dim=DIM, fields=FIELDS, **{"hidden": (6, 5), "batch_rows": 8, **settings})


def random_batch(rng, rows=12, keys=7, loss="log_loss"):
    """Rows of 0 to 5 features, with fields that repeat or lack, and keys that repeat within a row."""
    lengths = rng.integers(0, 6, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    nnz = int(offsets[-1])
    labels = rng.integers(0, 2, rows) if loss == "log_loss" else rng.normal(size=rows)
    batch = Batch(
        rng.integers(0, keys, nnz).astype(np.uint64),
        rng.integers(0, FIELDS, nnz).astype(np.uint16),
        rng.normal(size=nnz).astype(np.float32),
        offsets,
        labels.astype(np.float32),
    )
    index = batch.keys.astype(np.int64)
    index[rng.random(nnz) < 0.2] = -1
    return batch, index


def random_weights(rng, network, keys=7):
    """Return float64 weights of the keys and of the layers, biases included."""
    wide = DIM + (network.spec.linear is not None)
    return rng.normal(size=(keys, wide)), {
        name: rng.normal(scale=0.5, size=shape) for name, shape in network.shapes.items()
    }


def textbook(spec, batch, index, weights, dense):
    """Return each row's loss and score by torch, feature by feature, in float64."""
    names = sorted({name.split(".")[0] for name in dense}, key=int)
    losses, scores = [], []
    for r in range(batch.rows):
        pooled = [torch.zeros(DIM, dtype=torch.float64) for _ in range(FIELDS)]
        score = torch.zeros((), dtype=torch.float64)
        vectors = []
        for j in range(batch.offsets[r], batch.offsets[r + 1]):
            if index[j] < 0:
                continue
            row, x = weights[index[j]], float(batch.values[j])
            vectors.append(row[-DIM:] * x)
            pooled[batch.fields[j]] = pooled[batch.fields[j]] + vectors[-1]
            if spec.kind != "dnn":
                score = score + row[0] * x
        if spec.kind == "deepfm":
            for i, left in enumerate(vectors):
                for right in vectors[i + 1 :]:
                    score = score + left @ right
        hidden = torch.cat(pooled)
        for name in names:
            hidden = dense[f"{name}.weight"] @ hidden + dense.get(f"{name}.bias", 0)
            hidden = hidden if name == names[-1] else hidden.clamp(min=0)
        score = score + hidden[0]
        label = float(batch.labels[r])
        loss = (
            torch.nn.functional.softplus(score) - label * score if spec.loss == "log_loss" else (score - label) ** 2 / 2
        )
        losses.append(loss)
        scores.append(score)
    return torch.stack(losses), torch.stack(scores)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_gradients_are_those_of_autograd(kind, loss, seed):
    rng = np.random.default_rng(seed)
    spec = make_spec(kind, loss=loss, intercept=bool(rng.integers(2)))
    network = Network(spec)
    batch, index = random_batch(rng, loss=loss)
    weights, dense = random_weights(rng, network)
    leaf = torch.tensor(weights, requires_grad=True)
    leaves = {name: torch.tensor(each, requires_grad=True) for name, each in dense.items()}
    losses, scores = textbook(spec, batch, index, leaf, leaves)
    losses.sum().backward()

    found, sparse, outer = network.gradients(batch, weights, index, dense)
    assert np.allclose(found, scores.detach(), rtol=1e-9, atol=1e-9)
    assert np.allclose(network.scores(batch, weights, index, dense), scores.detach(), rtol=1e-9, atol=1e-9)
    assert np.allclose(sparse, leaf.grad, rtol=1e-9, atol=1e-9)
    assert set(outer) == set(leaves)
    for name, each in leaves.items():
        assert np.allclose(outer[name], each.grad / batch.rows, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite_differences(kind, seed):
    rng = np.random.default_rng(seed)
    spec = make_spec(kind, hidden=())  # a ReLU has a corner, where differences do not converge
    network = Network(spec)
    batch, index = random_batch(rng)
    weights, dense = random_weights(rng, network)
    _, sparse, outer = network.gradients(batch, weights, index, dense)

    def total():
        scores = network.scores(batch, weights, index, dense)
        return float(np.sum(np.logaddexp(0, scores) - batch.labels * scores))

    step = 1e-5
    for array, gradient, scale in (
        (weights, sparse, 1),
        *((dense[name], outer[name], batch.rows) for name in network.shapes),
    ):
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + step
            above = total()
            array[place] = kept - step
            below = total()
            array[place] = kept
            assert np.isclose((above - below) / (2 * step), gradient[place] * scale, rtol=1e-5, atol=1e-5)


def test_float32_is_close_to_float64(seed):
    rng = np.random.default_rng(seed)
    network = Network(make_spec("deepfm"))
    batch, index = random_batch(rng)
    weights, dense = random_weights(rng, network)
    weights *= 0.3
    wide = network.gradients(batch, weights, index, dense)
    narrow = network.gradients(
        batch, weights.astype(np.float32), index, {name: each.astype(np.float32) for name, each in dense.items()}
    )
    assert narrow[0].dtype == narrow[1].dtype == np.float32
    assert np.allclose(narrow[0], wide[0], rtol=1e-3, atol=1e-3)


def test_the_first_dense_weights_follow_from_the_seed():
    first, again, other = (Network(make_spec("dnn", seed=each)).matrices() for each in (3, 3, 4))
    for name, matrix in first.items():
        weights = matrix.pull()
        assert np.array_equal(weights, again[name].pull())
        if weights.ndim == 1:
            assert not weights.any()
        else:
            assert not np.array_equal(weights, other[name].pull())
            assert np.abs(weights).max() <= np.float32(np.sqrt(6 / weights.shape[1]))


def test_many_rows_are_scored_in_parts(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    network = Network(make_spec("deepfm"))
    batch, index = random_batch(rng, rows=50)
    weights, dense = random_weights(rng, network)
    expected = network.scores(batch, weights, index, dense)
    monkeypatch.setattr("bitlane.sparse.models.deep._CHUNK", 7 * FIELDS * DIM)
    assert np.allclose(network.scores(batch, weights, index, dense), expected, rtol=1e-12, atol=1e-12)


def test_a_batch_without_rows():
    network = Network(make_spec("dnn"))
    empty = Batch(
        np.zeros(0, np.uint64), np.zeros(0, np.uint16), np.zeros(0, np.float32), np.zeros(1, np.int64),
        np.zeros(0, np.float32),
    )  # fmt: skip
    dense = {name: matrix.pull() for name, matrix in network.matrices().items()}
    weights, index = np.zeros((0, DIM), np.float32), np.zeros(0, np.int64)
    scores, sparse, outer = network.gradients(empty, weights, index, dense)
    assert scores.shape == (0,) and sparse.shape == (0, DIM)
    assert all(not each.any() for each in outer.values())
    assert network.scores(empty, weights, index, dense).shape == (0,)


def test_a_field_above_the_last_is_refused():
    network = Network(make_spec("dnn"))
    batch = Batch(
        np.array([5], np.uint64), np.array([FIELDS], np.uint16), np.ones(1, np.float32), np.array([0, 1]),
        np.ones(1, np.float32),
    )  # fmt: skip
    with pytest.raises(DataError, match=r"^field 3 exceeds the model's largest, 2; set fields=4$"):
        network.check(batch)


def test_an_unknown_device_is_refused():
    with pytest.raises(DataError, match=r"^device 'abacus' is unknown to torch: .+"):
        Network(make_spec("dnn"), "abacus")


# --- as a SparseModel
def planted(rng, rows, crossed=True):
    """Rows of two features of 8 keys each, whose label follows from the parity of both: nothing for linear weights."""
    left, right = rng.integers(0, 8, (2, rows))
    labels = (left + right) % 2 if crossed else left % 2
    return Batch(
        np.stack([left, right + 8], 1).ravel().astype(np.uint64),
        np.tile(np.array([0, 1], np.uint16), rows),
        np.ones(2 * rows, np.float32),
        np.arange(0, 2 * rows + 1, 2),
        labels.astype(np.float32),
    )


def bits_of(model):
    """Return every number of a model: rows by key, matrices, rows seen."""
    keys, rows = (
        np.concatenate(each) for each in zip(*(item[:2] for item in model.parameters.table.items()), strict=True)
    )
    order = np.argsort(keys)
    matrices = {name: matrix.state()["row"].tobytes() for name, matrix in model.matrices.items()}
    return keys[order].tobytes(), rows[order].tobytes(), matrices, model.rows_seen


def accuracy(model, batch):
    return np.mean((model.scores(batch) > 0) == batch.labels)


def network_model(kind, seed, **settings):
    return SparseModel(make_spec(kind, seed=seed, **{"batch_rows": 32, "hidden": (16, 8), **settings}))


@pytest.mark.parametrize("kind", KINDS)
def test_networks_learn_an_interaction_that_linear_weights_cannot(kind, seed):
    rng = np.random.default_rng(seed)
    test = planted(rng, 2000)
    linear = SparseModel(ModelSpec("lr"))
    model = network_model(kind, seed, factors=AdaGrad(0.1), dense=AdaGrad(0.05), initial_scale=0.5, hidden=(32, 16))
    for _ in range(20):
        part = planted(rng, 1000)
        linear.learn(part)
        model.learn(part)
    assert accuracy(linear, test) < 0.7
    assert accuracy(model, test) > 0.95


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_rows_are_scored_with_their_mean_label(kind, loss, seed):
    batch, _ = random_batch(np.random.default_rng(seed), rows=200, loss=loss)
    model = SparseModel(make_spec(kind, loss=loss, seed=seed % 1000))
    first = model.pull_dense()
    model.begin(batch)
    assert [name for name, each in model.pull_dense().items() if not np.array_equal(each, first[name])] == ["4.bias"]
    model.parameters.pull(np.unique(batch.keys), create=True)
    assert float(np.mean(model.scores(batch))) == pytest.approx(base_score(loss, batch.labels), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_thread_gives_the_same_bits_twice(kind, seed):
    models = [network_model(kind, seed) for _ in range(2)]
    for model in models:
        model.learn(planted(np.random.default_rng(seed), 500))
    assert bits_of(models[0]) == bits_of(models[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_goes_on_with_the_same_bits(kind, seed, tmp_path):
    rng = np.random.default_rng(seed)
    first, second = planted(rng, 300), planted(rng, 300)
    model = network_model(kind, seed)
    model.learn(first)
    model.save(tmp_path)
    loaded = SparseModel.load(tmp_path)
    assert bits_of(loaded) == bits_of(model)
    assert np.array_equal(loaded.scores(second), model.scores(second))
    assert np.array_equal(loaded.learn(second), model.learn(second))
    assert bits_of(loaded) == bits_of(model)


def test_deepfm_with_layers_of_zeros_is_an_fm(seed):
    rng = np.random.default_rng(seed)
    batch, _ = random_batch(rng, rows=40)
    deep = network_model("deepfm", seed, hidden=(6,))
    fm = SparseModel(ModelSpec("fm", dim=DIM, seed=seed))
    keys = np.unique(batch.keys)
    rows = rng.normal(size=(len(keys), fm.parameters.table.width)).astype(np.float32)
    rows[:, 1] = np.abs(rows[:, 1])  # n of FTRL
    for model in (deep, fm):
        model.parameters.table.scatter(keys, rows)
    for name, matrix in deep.matrices.items():
        matrix.restore({"row": Matrix(matrix.shape, matrix.optimizer, np.zeros(matrix.shape, np.float32)).row})
        assert not matrix.pull().any(), name
    expected = fm.scores(batch)
    assert np.abs(expected).max() > 0
    assert np.allclose(deep.scores(batch), expected, rtol=1e-3, atol=1e-3)


def test_a_minibatch_pushes_sums_to_rows_and_means_to_layers(seed):
    """One step of SGD by hand: the weights move by the rate times the gradients of `Network`."""
    rng = np.random.default_rng(seed)
    rate = 0.25
    sgd = SGD(rate)
    model = network_model("widedeep", seed, linear=sgd, factors=sgd, dense=sgd, initial_scale=0.5, batch_rows=100)
    batch = planted(rng, 40)
    keys, index = np.unique(batch.keys, return_inverse=True)
    weights, dense = model.parameters.pull(keys, create=True), model.pull_dense()
    wide = {name: each.astype(np.float64) for name, each in dense.items()}
    _, sparse, outer = Network(model.spec).gradients(batch, weights.astype(np.float64), index, wide)
    model.learn(batch)
    assert np.allclose(model.parameters.pull(keys), weights - rate * sparse, rtol=1e-4, atol=1e-4)
    for name, each in model.pull_dense().items():
        assert np.allclose(each, dense[name] - rate * outer[name], rtol=1e-4, atol=1e-4)
