"""Checkpoints of two servers, served by three, and by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import make_shards, remote

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD, AdaGrad
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.servers.reshard import reshard
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.tables.sketch import Admission

BLOCKS = (ParameterBlock(2, AdaGrad(), 0.1),)
SPEC = ShardSpec(BLOCKS, 3, matrices={f"layer{i}": MatrixSpec((2, i + 1), SGD(1.0)) for i in range(6)})


@pytest.mark.parametrize("servers", [1, 3])
def test_rows_and_matrices_move_with_their_bits(seed: int, tmp_path: Path, servers: int) -> None:
    draw = np.random.default_rng(seed)
    keys = np.unique(draw.integers(0, 1 << 64, 500, np.uint64))
    gradients = draw.normal(size=(len(keys), 2)).astype(np.float32)
    dense = {name: draw.normal(size=each.shape).astype(np.float32) for name, each in SPEC.matrices.items()}
    local = SparseParameters(BLOCKS, 3)
    local.push(keys, gradients, create=True)
    local.push(keys, gradients)
    sources = make_shards(tmp_path, SPEC, 2)
    with remote(sources) as parameters:
        parameters.send(keys, gradients)
        parameters.checkpoint()
        parameters.send(keys, gradients, dense=dense)  # in the log only
    targets = [tmp_path / f"target{server}" for server in range(servers)]
    reshard(sources, targets)
    with remote(targets) as parameters:
        assert [each["rows"] for each in parameters.status()] == [
            int(np.sum(parameters.spec.partition.owners(keys) == server)) for server in range(servers)
        ]
        assert np.array_equal(parameters.weights(keys), local.pull(keys))
        found = parameters.dense()
        assert all(np.array_equal(found[name], -dense[name]) for name in dense) and len(found) == 6
        parameters.send(keys, gradients)
        local.push(keys, gradients)
        assert np.array_equal(parameters.weights(keys), local.pull(keys))


def test_ages_clock_and_counts_of_the_admission_move(tmp_path: Path) -> None:
    """A key that was seen once enters at its second sighting, on whatever server it is then."""
    spec = ShardSpec((ParameterBlock(1, SGD()),), admission=Admission(2, 1 << 16), track_age=True)
    sources, keys = make_shards(tmp_path, spec, 2), np.arange(300, dtype=np.uint64)
    with remote(sources) as parameters:
        for count, stamp in ((100, 5), (200, 5), (0, 8)):
            parameters.send(keys[:count], np.zeros((count, 1)), stamp=stamp)
    targets = [tmp_path / f"target{server}" for server in range(3)]
    reshard(sources, targets)
    with remote(targets) as parameters:
        assert sum(each["rows"] for each in parameters.status()) == 100
        assert {each["clock"] for each in parameters.status()} == {8}
        parameters.send(keys[100:200], np.zeros((100, 1)), stamp=8)
        assert sum(each["rows"] for each in parameters.status()) == 200
        parameters.send(keys[200:], np.zeros((100, 1)), stamp=8)
        assert sum(each["rows"] for each in parameters.status()) < 210  # few collide
    stamps = {}
    for folder in targets:
        shard = ParameterShard.open(folder)
        for found, _, ages in shard.parameters.table.items():
            stamps.update(zip(found.tolist(), ages.tolist(), strict=True))
        shard.close()
    assert all(stamps[key] == (5 if key < 100 else 8) for key in range(200))


def test_shards_of_another_order_or_model_are_refused(tmp_path: Path) -> None:
    sources = make_shards(tmp_path, SPEC, 2)
    with pytest.raises(DataError, match="is shard 1 of 2; it was given as 0 of 2"):
        reshard(sources[::-1], [tmp_path / "a"])
    with pytest.raises(DataError, match="is shard 0 of 2; it was given as 0 of 1"):
        reshard(sources[:1], [tmp_path / "a"])
    other = make_shards(tmp_path / "other", ShardSpec(BLOCKS, 4), 2)
    with pytest.raises(DataError, match="belongs to another model"):
        reshard([sources[0], other[1]], [tmp_path / "a"])
    with pytest.raises(DataError, match="is in use"):
        reshard(sources, [other[0]])
