"""The share of known values: against sets of Python, and what is told of columns that a model hardly knows."""

from __future__ import annotations

import numpy as np

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
from bitlane.sparse.registry.quantizing import frozen_model
from bitlane.sparse.scoring.known import KnownKeys


def table(rng: np.random.Generator, rows: int, keys: int, fields: int) -> Batch:
    """Rows with a feature in each field."""
    found = rng.integers(0, keys, (rows, fields)).astype(np.uint64) + 1000 * np.arange(fields, dtype=np.uint64)
    numbers = np.broadcast_to(np.arange(fields, dtype=np.uint16), found.shape)
    labels = rng.integers(0, 2, rows).astype(np.float32)
    offsets = np.arange(rows + 1, dtype=np.int64) * fields
    return Batch(found.ravel(), numbers.ravel().copy(), np.ones(rows * fields, np.float32), offsets, labels)


def test_shares_by_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema(categorical=("a", "b"), numeric=("n",), crosses=(("a", "b"),))
    learned, fresh = table(rng, 60, 100, 4), table(rng, 80, 200, 4)
    model = SparseModel(ModelSpec("lr"))
    model.learn(learned)
    counts, plain = KnownKeys(schema), KnownKeys()
    for batch in (fresh.slice(0, 30), fresh.slice(30, 80)):
        counts.add(batch, model.scores_and_known(batch)[1])
        plain.add(batch, model.scores_and_known(batch)[1])
    seen = set(learned.keys.tolist())
    wanted = {
        name: [key in seen for key in fresh.keys[fresh.fields == field].tolist()]
        for field, name in enumerate(("a", "b", "n", "a&b"))
        if name != "n"
    }
    assert counts.shares() == {name: np.mean(each) for name, each in wanted.items()}
    assert list(counts.shares().values()) == sorted(counts.shares().values())
    assert counts.share == np.mean([*wanted["a"], *wanted["b"], *wanted["a&b"]])
    assert plain.share == np.mean([key in seen for key in fresh.keys.tolist()])
    assert counts.text().startswith(f"values that the model knows: {counts.share:.1%}; ")


def test_scores_come_with_what_is_known(seed: int) -> None:
    """Of rows with any number of features, one lookup gives the scores and which features the model has."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, 200)
    offsets, nnz = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), int(counts.sum())
    keys, fields = rng.integers(0, 60, nnz).astype(np.uint64), rng.integers(0, 3, nnz).astype(np.uint16)
    rows = Batch(keys, fields, np.ones(nnz, np.float32), offsets, rng.integers(0, 2, 200).astype(np.float32))
    learned, model = rows.slice(0, 40), SparseModel(ModelSpec("fm"))
    enriched = EnrichedModel(SparseModel(ModelSpec("lr")), Statistics(StatisticsSettings(fields=(1,), first_field=3)))
    for each in (model, enriched):
        each.learn(learned)
    wanted = np.isin(keys, learned.keys)
    for each in (model, enriched, frozen_model(model)):
        scores, known = each.scores_and_known(rows)
        assert np.array_equal(scores, each.scores(rows)) and np.array_equal(known, wanted)


def test_a_column_that_the_model_does_not_know_is_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = SparseModel(ModelSpec("lr"))
    learned = table(rng, 2_000, 50, 2)
    model.learn(learned)
    shifted = learned.keys + np.uint64(10**6) * (learned.fields == 1)
    other = Batch(shifted, learned.fields, learned.values, learned.offsets, learned.labels)
    counts = KnownKeys(Schema(categorical=("a", "at")))
    counts.add(learned, model.scores_and_known(learned)[1])
    assert counts.share == 1.0 and not counts.problems()
    counts = KnownKeys(Schema(categorical=("a", "at")))
    counts.add(other, model.scores_and_known(other)[1])
    assert counts.problems() == [
        "the model knows 0.0% of the 2,000 values of column 'at': are they written as in the training data?"
    ]
    assert counts.text() == "values that the model knows: 50.0%; at 0.0%"
    few = KnownKeys(Schema(categorical=("a", "at")))
    few.add(other.slice(0, 99), model.scores_and_known(other.slice(0, 99))[1])
    assert not few.problems()
    assert KnownKeys().text() == "no categorical values" and KnownKeys().share is None
