"""What differs between two versions, against dictionaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_registry import ChangingModel, saved

from bitlane.errors import DataError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.comparing import compare
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.registry import ModelRegistry


@pytest.mark.parametrize("shards", [1, 3])
def test_counts_and_largest_changes(tmp_path: Path, seed: int, shards: int) -> None:
    """Of two versions whose rows lie in other shards, too."""
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    held = []
    for part in (shards, 1):
        for _ in range(3):
            changing.change()
        held.append(changing.weights())
        publish_folder(registry, saved(tmp_path / "m", changing.model), shards=part)
    old, new = held
    found = compare(registry, 1, 2, top=5)
    changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    assert (found.rows, found.added, found.deleted) == (len(new), len(new.keys() - old.keys()), len(old.keys() - new))
    assert found.changed == len(changed)
    zeros = (0.0, 0.0, 0.0)
    distances = {
        key: np.linalg.norm(np.subtract(new.get(key, zeros), old.get(key, zeros))) for key in old.keys() | new.keys()
    }
    largest = sorted(distances.values(), reverse=True)[:5]
    assert np.allclose([each.distance for each in found.largest], largest)
    for each in found.largest:
        assert (each.before, each.after) == (old.get(each.key, zeros), new.get(each.key, zeros))
        assert np.isclose(each.distance, distances[each.key])
    same = compare(registry, 2, 2)
    assert (same.added, same.changed, same.deleted, same.largest) == (0, 0, 0, ())


def test_rows_of_other_sizes(tmp_path: Path) -> None:
    registry = ModelRegistry(tmp_path / "model")
    for dim in (2, 3):
        publish_folder(registry, saved(tmp_path / "m", SparseModel(ModelSpec("fm", dim=dim))))
    with pytest.raises(DataError, match="version 1 has 3 weights a row, version 2 4"):
        compare(registry, 1, 2)
