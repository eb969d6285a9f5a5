"""Networks in a registry: their layers are whole in each version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs
from tests.helpers.sparse_registry import ChangingModel, batch_of

from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry

pytestmark = pytest.mark.torch


def test_a_network_scores_as_its_model(tmp_path: Path, seed: int) -> None:
    changing = ChangingModel(seed, spec=ModelSpec("dnn", dim=4, fields=2, hidden=(5,), batch_rows=8))
    registry = ModelRegistry("here", fs._MockFileSystem())
    publisher = Publisher(registry, changing.model)
    batch = batch_of(changing.rng, changing.keys, 50)
    for _ in range(2):
        changing.change()
        version = publisher.publish().version
    model = registry.load(version, cache=tmp_path)
    assert np.allclose(model.scores(batch), changing.model.scores(batch), rtol=0, atol=1e-6)
