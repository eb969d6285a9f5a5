"""Weights in few bits: the bound on what they lose is held, and deltas take the levels of their base."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_registry import ChangingModel, batch_of, compacted, saved, snapshot

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, AdaGrad
from bitlane.sparse.registry import quantizing
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.quantizing import Quantization, choose_levels, frozen_model, sample_weights
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.tables.codebooks import Codebook, fit_codebook

SPEC = ModelSpec("fm", dim=3, linear=AdaGrad(0.5), factors=AdaGrad(0.5))


def learned(seed: int, spec: ModelSpec = SPEC) -> tuple[SparseModel, Batch]:
    loss = spec.loss
    rows, model = planted_rows(seed, 2500, keys=1000, loss=loss), SparseModel(spec)
    for _ in range(3):
        model.learn(rows.slice(0, 1500))
    return model, rows.slice(1500, 2500)


def lost_by_hand(model: SparseModel, codebook: Codebook, held_out: Batch) -> dict[str, float]:
    """AUC and log loss lost, from scikit-learn and float64."""
    metrics = pytest.importorskip("sklearn.metrics")

    def quality(each: np.ndarray) -> tuple[float, float]:
        scores = each.astype(np.float64)
        auc = metrics.roc_auc_score(held_out.labels, scores)
        return auc, metrics.log_loss(held_out.labels, 1 / (1 + np.exp(-scores)))

    before, after = quality(model.scores(held_out)), quality(frozen_model(model, codebook).scores(held_out))
    return {"auc": before[0] - after[0], "log_loss": after[1] - before[1]}


def test_fewer_bits_are_taken_as_the_bound_allows(seed: int) -> None:
    """A bound just above and just below what 2 and 4 bits lose, on learned rows: fewer bits lose more there."""
    model, _ = learned(seed)
    rows = planted_rows(seed, 2500, keys=1000).slice(0, 1500)
    values, weights = sample_weights(model)
    worst = {
        bits: max(lost_by_hand(model, fit_codebook(values, bits, "nearest", weights), rows).values())
        for bits in (2, 4, 8)
    }
    assert worst[2] > worst[4] > max(0.0, worst[8])
    for bits in (2, 4):
        above, below = worst[bits] * 1.01 + 1e-6, worst[bits] * 0.99 - 1e-6
        assert choose_levels(model, [rows], None, max_loss=above).record["bits"] == bits
        assert choose_levels(model, [rows], bits, max_loss=above).record["bits"] == bits
        more = choose_levels(model, [rows], None, max_loss=below).record
        assert more["bits"] == 2 * bits and str(bits) in more["refused"]
        with pytest.raises(DataError, match=rf"^{bits} bits with nearest levels lose .*; the bound is .*--bits auto"):
            choose_levels(model, [rows], bits, max_loss=below)


def test_the_record_tells_what_was_lost(seed: int) -> None:
    model, held_out = learned(seed)
    found = choose_levels(model, [held_out.slice(0, 400), held_out.slice(400, 1000)], 8, "optimal", 0.1)
    assert found.codebook is not None
    lost = found.record["lost"]
    assert lost == pytest.approx(lost_by_hand(model, found.codebook, held_out), abs=1e-6)
    assert found.record == {
        "bits": 8,
        "levels": "optimal",
        "max_loss": 0.1,
        "held_out_rows": 1000,
        "lost": lost,
        "refused": {},
    }
    values, weights = sample_weights(model)
    assert found.codebook == fit_codebook(values, 8, "optimal", weights)


@pytest.mark.parametrize("metric", ["auc", "log_loss"])
def test_each_metric_is_bounded(seed: int, metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, held_out = learned(seed)
    monkeypatch.setattr(quantizing, "quality_lost", lambda *_: {"auc": -1.0, "log_loss": -1.0, metric: 0.2})
    with pytest.raises(DataError, match=r"8 bits .* lose .*0\.20000 "):
        choose_levels(model, [held_out], 8, max_loss=0.1)
    assert choose_levels(model, [held_out], 8, max_loss=0.2).codebook is not None


def test_no_bits_keep_a_bound_of_nothing(seed: int) -> None:
    """Then auto leaves float32, unless 8 bits happen to lose nothing."""
    model, held_out = learned(seed)
    found = choose_levels(model, [held_out], None, "uniform", 0.0)
    if found.codebook is None:
        assert found.record["bits"] == 32 and list(found.record["refused"]) == ["2", "4", "8"]
    else:
        assert max(found.record["lost"].values()) <= 0


def test_squared_error_is_bounded_by_its_root(seed: int) -> None:
    model, held_out = learned(seed, ModelSpec("lr", "squared_error", linear=FTRL(0.3)))
    found = choose_levels(model, [held_out], 4, max_loss=1)
    assert found.codebook is not None
    errors = [
        np.sqrt(np.mean((frozen_model(model, book).scores(held_out).astype(np.float64) - held_out.labels) ** 2))
        for book in (None, found.codebook)
    ]
    assert found.record["lost"] == pytest.approx({"rmse": errors[1] / errors[0] - 1}, abs=1e-6)


def test_what_cannot_be_measured_is_refused(seed: int) -> None:
    model, held_out = learned(seed)
    ones = np.flatnonzero(held_out.labels > 0)
    row = held_out.slice(int(ones[0]), int(ones[0]) + 1)
    with pytest.raises(DataError, match="one class only"):
        choose_levels(model, [row], 8)
    with pytest.raises(DataError, match="bound on the loss must be at least 0; got -1"):
        choose_levels(model, [held_out], 8, max_loss=-1)
    with pytest.raises(DataError, match="at least one row"):
        choose_levels(SparseModel(SPEC), [held_out], 8)
    model.parameters.push(held_out.keys[:1], np.full((1, 4), np.nan, np.float32))
    with pytest.raises(DataError, match="a weight is nan"):
        choose_levels(model, [held_out], 8)


def test_a_sample_has_the_extremes_and_stands_for_all(seed: int) -> None:
    """Few keys have most of the squared gradients, but not all of them."""
    rng = np.random.default_rng(seed)
    model = SparseModel(ModelSpec("lr", linear=AdaGrad(0.1)))
    keys = np.unique(rng.integers(0, 2**64, 40_000, dtype=np.uint64))
    gradients = (rng.normal(size=(len(keys), 1)) * np.exp(0.7 * rng.normal(size=(len(keys), 1)))).astype(np.float32)
    model.parameters.push(keys, gradients, create=True)
    full, weights = sample_weights(model)
    assert len(full) == len(keys)
    np.testing.assert_allclose(np.sort(weights[:, 0]), np.sort(gradients[:, 0] ** 2), rtol=1e-3, atol=1e-6)
    values, heavy = sample_weights(model, 4000)
    assert 3000 < len(values) < 4500
    assert (values.min(), values.max()) == (full.min(), full.max())
    assert heavy.sum() == pytest.approx(weights.sum(), rel=0.05)

    def error(codebook: Codebook) -> float:
        distance = np.abs(full.astype(np.float64) - codebook.levels[0]).min(axis=1)
        return float((weights[:, 0] * distance**2).sum())

    best = error(fit_codebook(full, 4, "nearest", weights))
    assert error(fit_codebook(values, 4, "nearest", heavy)) < 1.3 * best


@pytest.mark.parametrize("shards", [1, 3])
def test_base_and_deltas_have_the_bytes_of_a_full_snapshot(tmp_path: Path, seed: int, shards: int) -> None:
    """The deltas have values outside the levels of the base: they are clipped, and counted."""
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    changing.model.learn(batch_of(changing.rng, changing.keys, 300))
    chosen: list[Codebook] = []

    def quantize(model: SparseModel) -> Quantization:
        chosen.append(fit_codebook(*sample_weights(model)[:1], 4))
        return Quantization(chosen[0], {"bits": 4, "levels": "nearest"})

    publish_folder(registry, saved(tmp_path / "m", changing.model), shards=shards, quantize=quantize)
    for version in range(2, 5):
        changing.change()
        changing.model.learn(batch_of(changing.rng, changing.keys, 200))
        manifest = publish_folder(
            registry, saved(tmp_path / "m", changing.model), parent=version - 1, quantize=quantize
        )
        weights = np.array(list(changing.weights().values()), np.float32)
        low, high = chosen[0].levels[:, 0], chosen[0].levels[:, -1]
        record = manifest.description.quantization
        assert record is not None and record["bits"] == 4 and len(chosen) == 1
        assert 0 < record["clipped"] <= int(((weights < low) | (weights > high)).sum())
    if shards == 1:
        assert compacted(registry, 4) == snapshot(changing.weights(), weights.shape[1], chosen[0])
    full = ModelRegistry(tmp_path / "full")
    again = publish_folder(
        full,
        saved(tmp_path / "m", changing.model),
        shards=shards,
        quantize=lambda _: Quantization(chosen[0], {"bits": 4}),
    )
    assert again.description.quantization is not None
    assert again.description.quantization["clipped"] == int(((weights < low) | (weights > high)).sum())
    keys = np.unique(changing.keys)
    assert registry.load(4).table.lookup(keys)[0].tobytes() == full.load(1).table.lookup(keys)[0].tobytes()
