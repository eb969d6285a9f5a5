"""What a weight server loads of a version: the rows of its keys, however many shards the version was published with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
from tests.helpers.sparse_registry import ChangingModel, saved

from bitlane.errors import DataError
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.shards.source import RegistryShard


@pytest.mark.parametrize(("published", "served"), [(4, 4), (1, 3), (4, 2), (3, 4)])
def test_each_server_has_the_rows_of_its_keys(tmp_path: Path, seed: int, published: int, served: int) -> None:
    """Of a base with two changes above it; keys of other servers are not there."""
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    for version in range(3):
        changing.change()
        parent = {} if version == 0 else {"parent": version}
        publish_folder(registry, saved(tmp_path / "m", changing.model), shards=published, **parent)
    partition = Partition(served)
    owners = partition.owners(changing.keys)
    for shard in range(served):
        mine, load = owners == shard, RegistryShard(registry.uri, shard, partition)
        for version in (1, 3, 2, 3):  # the first 3 is loaded above 1, the second above 2, and 2 by itself
            wanted, known = registry.load(version).table.lookup(changing.keys[mine])
            weights, found = load(version).lookup(changing.keys[mine])
            assert weights.tobytes() == wanted.tobytes()
            assert np.array_equal(found, known)
            if published != served:
                assert not load(version).lookup(changing.keys[~mine])[1].any()


def test_a_damaged_file_is_named(tmp_path: Path, seed: int) -> None:
    changing, registry = ChangingModel(seed), ModelRegistry(tmp_path / "model")
    changing.change()
    publish_folder(registry, saved(tmp_path / "m", changing.model), shards=2)
    path = tmp_path / "model/versions/0000001/rows-00001.frozen"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    RegistryShard(registry.uri, 0, Partition(2))(1)
    with pytest.raises(DataError, match=r"rows-00001.frozen is damaged"):
        RegistryShard(registry.uri, 1, Partition(2))(1)
    with pytest.raises(DataError, match=r"^shard must be 0 to 1; got 2$"):
        RegistryShard(registry.uri, 2, Partition(2))
