"""Publishing a model that lies in a folder: base, change of any version, shards; what does not fit is one line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_registry import SPEC, ChangingModel, held_by, saved

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.registry import ModelRegistry

DATA = {"schema": {"kind": "columns", "categorical": ["user"]}, "label": None, "task": "classification", "fields": None}


@pytest.mark.parametrize("shards", [1, 4])
def test_versions_are_what_the_folders_held(tmp_path: Path, seed: int, shards: int) -> None:
    """A change may be one of any earlier version, and has its shards."""
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    expected = {}
    for number in range(1, 6):
        changing.change()
        parent = None if number == 1 else int(changing.rng.integers(1, number))
        manifest = publish_folder(registry, saved(tmp_path / "m", changing.model), parent=parent, shards=shards)
        weights = changing.weights()
        assert (manifest.shards, manifest.rows, manifest.parent) == (shards, len(weights), parent)
        assert manifest.description.rows_seen == changing.model.rows_seen
        expected[number] = {key: row for key, row in weights.items() if any(row)}
    for number, rows in expected.items():
        assert held_by(registry, number, changing.keys) == rows
        dense = registry.load(number).dense
    assert np.array_equal(dense["intercept"], changing.model.pull_dense()["intercept"])


def test_nothing_changed_is_an_empty_delta(tmp_path: Path, seed: int) -> None:
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    changing.change()
    folder = saved(tmp_path / "m", changing.model)
    publish_folder(registry, folder)
    manifest = publish_folder(registry, folder, parent=1)
    assert (manifest.changed, manifest.deleted, manifest.rows) == (0, 0, len(changing.weights()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "lr", "factors": None}, "version 1 has kind=fm, this model lr: publish it as a base"),
        ({"dim": 3}, "version 1 has dim=2, this model 3: publish it as a base"),
        ({"intercept": False}, "version 1 has intercept=True, this model False: publish it as a base"),
    ],
)
def test_another_model_is_no_change(tmp_path: Path, change: dict[str, object], message: str) -> None:
    registry = ModelRegistry(tmp_path / "model")
    publish_folder(registry, saved(tmp_path / "m", SparseModel(SPEC)))
    other = saved(tmp_path / "m", SparseModel(replace(SPEC, **change)))
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        publish_folder(registry, other, parent=1)
    assert registry.numbers() == registry.claimed() == [1]


def test_another_learning_rate_is_a_change(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "model")
    publish_folder(registry, saved(tmp_path / "m", SparseModel(SPEC)))
    other = saved(tmp_path / "m", SparseModel(replace(SPEC, factors=SGD(0.5))))
    assert publish_folder(registry, other, parent=1).kind == "delta"


def test_linear_weights_must_be_in_both(tmp_path: Path) -> None:
    registry, ffm = ModelRegistry(tmp_path / "model"), ModelSpec("ffm", fields=2)
    publish_folder(registry, saved(tmp_path / "m", SparseModel(ffm)))
    other = saved(tmp_path / "m", SparseModel(replace(ffm, linear=SGD())))
    with pytest.raises(DataError, match="differ in linear weights"):
        publish_folder(registry, other, parent=1)


def test_other_settings_of_hashing_are_one_line(tmp_path: Path) -> None:
    registry, model = ModelRegistry(tmp_path / "model"), SparseModel(SPEC)
    first = publish_folder(registry, saved(tmp_path / "m", model, DATA))
    assert first.description.data == DATA
    other = {**DATA, "schema": {"kind": "columns", "categorical": ["item"]}}
    message = (
        "version 1 has different hashing settings, categorical=['user']; this model has "
        "['item']: publish it as a base, or under another name"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        publish_folder(registry, saved(tmp_path / "m", model, other), parent=1)
    with pytest.raises(DataError, match="different hashing settings"):
        publish_folder(registry, saved(tmp_path / "m", model), parent=1)
    assert publish_folder(registry, saved(tmp_path / "m", model, other)).kind == "base"


def test_the_name_of_a_label_is_no_setting_of_hashing(tmp_path: Path, seed: int) -> None:
    """A label or time of another name, or one left to the default, changes no key; other settings of columns do."""
    rng = np.random.default_rng(seed)
    registry, model = ModelRegistry(tmp_path / "model"), SparseModel(SPEC)
    schema = Schema(label="label", categorical=("user", "item"), numeric=("price",), time="when").as_json()
    data = {"schema": schema, "label": "label", "task": "classification", "fields": 3}
    publish_folder(registry, saved(tmp_path / "m", model, data))
    labels = (None, "label", "clicked", "bought")
    for parent in (1, 2):
        columns = {
            **schema,
            "label": rng.choice(["label", "clicked"]).item(),
            "time": rng.choice(["when", "day"]).item(),
        }
        other = {**data, "schema": columns, "label": labels[rng.integers(4)], "fields": [None, 3][rng.integers(2)]}
        assert publish_folder(registry, saved(tmp_path / "m", model, other), parent=parent).kind == "delta"
    change = ({"categorical": ("item", "user")}, {"numeric": ()}, {"crosses": (("user", "item"),)})[rng.integers(3)]
    (name,) = change
    with pytest.raises(DataError, match=rf"version 1 has different hashing settings, {name}="):
        publish_folder(registry, saved(tmp_path / "m", model, {**data, "schema": {**schema, **change}}), parent=1)


def test_what_cannot_be_published(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "model")
    with pytest.raises(DataError, match="contains no sparse model"):
        publish_folder(registry, tmp_path)
    with pytest.raises(DataError, match="has no version 3; it has none"):
        publish_folder(registry, saved(tmp_path / "m", SparseModel(SPEC)), parent=3)
    assert registry.claimed() == []
