"""A model with statistics: it learns what is counted, and saves, loads and resumes with it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.enriched import EnrichedModel, has_statistics
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings

pytest.importorskip("numba")
pytest.importorskip("pyarrow")


def rows_of(rng: np.random.Generator, rows: int) -> Batch:
    """One key of each of two fields; the first decides the label, mostly."""
    keys = rng.integers(0, 2000, (rows, 2)).astype(np.uint64)
    labels = (rng.random(rows) < np.where(keys[:, 0] % 2, 0.9, 0.1)).astype(np.float32)
    fields = np.tile(np.arange(2, dtype=np.uint16), rows)
    return Batch(keys.ravel(), fields, np.ones(2 * rows, np.float32), np.arange(rows + 1) * 2, labels)


def model_of(batch_rows: int = 1, **settings: object) -> EnrichedModel:
    statistics = Statistics(StatisticsSettings(**{"fields": (0,), "first_field": 2, "batch_rows": 50} | settings))
    return EnrichedModel(SparseModel(ModelSpec("lr", batch_rows=batch_rows)), statistics)


def test_learning_is_enrich_learn_update(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for batch_rows, step in ((1, 50), (8, 56)):  # whole minibatches
        batch, model = rows_of(rng, 333), model_of(batch_rows)
        other = model_of(batch_rows)
        expected = []
        for start in range(0, 333, step):
            part = batch.slice(start, start + step)
            expected.append(other.model.learn(other.statistics.enrich(part)))
            other.statistics.update(part)
        assert np.array_equal(model.learn(batch), np.concatenate(expected))
        assert model.rows_seen == model.statistics.rows_seen == 333
        assert np.array_equal(model.scores(batch), other.model.scores(other.statistics.enrich(batch)))
        assert np.array_equal(model.predict(batch), other.model.predict(other.statistics.enrich(batch)))


def test_a_row_s_label_changes_no_score_before_it_is_learned(seed: int) -> None:
    batch = rows_of(np.random.default_rng(seed), 200)
    flipped = Batch(batch.keys, batch.fields, batch.values, batch.offsets, batch.labels.copy())
    flipped.labels[150:] = 1 - flipped.labels[150:]
    assert np.array_equal(model_of().learn(batch)[:151], model_of().learn(flipped)[:151])


def test_another_epoch_counts_anew(seed: int) -> None:
    model, batch = model_of(), rows_of(np.random.default_rng(seed), 100)
    first = model.statistics.enrich(batch)
    model.learn(batch)
    model.begin_epoch()
    assert np.array_equal(model.statistics.enrich(batch).values, first.values)
    assert model.rows_seen == 100, "the model stays"


def test_rates_of_keys_tell_clicks_apart(seed: int) -> None:
    """Each key has few rows: its rate, a feature that all keys share, ranks better than weights of single keys."""
    rng = np.random.default_rng(seed)
    batch = rows_of(rng, 10_000)

    def loss(scores: np.ndarray) -> float:
        return float(np.logaddexp(0, np.where(batch.labels > 0, -scores, scores).astype(np.float64))[5000:].mean())

    plain = SparseModel(ModelSpec("lr")).learn(batch)
    assert loss(model_of(prior_weight=1.0).learn(batch)) < loss(plain) - 0.05


def test_a_saved_model_goes_on(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = model_of(half_life=100.0, kinds=("rate", "clicks"), sightings=2)
    model.learn(rows_of(rng, 300))
    model.save(tmp_path)
    assert has_statistics(tmp_path) and not has_statistics(tmp_path / "statistics")
    loaded = EnrichedModel.load(tmp_path)
    assert loaded.statistics.settings == model.statistics.settings
    for _ in range(2):
        batch = rows_of(rng, 100)
        assert np.array_equal(loaded.scores(batch), model.scores(batch))
        assert np.array_equal(loaded.learn(batch), model.learn(batch))
    assert len(loaded.parameters.table) == len(model.parameters.table)
    assert len(loaded.statistics.table) == len(model.statistics.table)


@pytest.mark.parametrize("name", ["model.json", "parameters.arrow", "dense.npz"])
def test_a_damaged_folder(name: str, tmp_path: Path, seed: int) -> None:
    model = model_of()
    model.learn(rows_of(np.random.default_rng(seed), 300))
    model.save(tmp_path)
    file = tmp_path / "statistics" / name
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="statistics"):
        EnrichedModel.load(tmp_path)
    if name == "model.json":
        record = json.loads(content)
        del record["totals"]["clicks"]
        file.write_text(json.dumps(record))
        with pytest.raises(DataError, match="damaged: 'clicks'"):
            EnrichedModel.load(tmp_path)


def test_what_does_not_fit(seed: int) -> None:
    with pytest.raises(DataError, match="fields=3: with its statistics the model needs fields=4"):
        EnrichedModel(SparseModel(ModelSpec("ffm", fields=3)), Statistics(StatisticsSettings((0,), 2)))
    model, batch = model_of(), rows_of(np.random.default_rng(seed), 100)
    batch.labels[99] = math.nan
    with pytest.raises(DataError, match="row 99: label nan"):
        model.learn(batch)
    assert model.rows_seen == 0
