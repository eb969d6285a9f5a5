"""Keys are spread over servers by the low bits of their words."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.tables.table import Table

MASK = (1 << 64) - 1


def textbook_server(key: int, servers: int, virtual_shards: int) -> int:
    """The finalizer of splitmix64 in integers, then the shard's place among consecutive parts."""
    word = ((key ^ key >> 30) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & MASK
    shard = (word ^ word >> 31) % virtual_shards
    return next(s for s in range(servers) if shard < virtual_shards * (s + 1) // servers)


@pytest.mark.parametrize(("servers", "virtual_shards"), [(1, 1), (2, 256), (3, 256), (7, 8), (256, 256)])
def test_owners_are_the_textbooks(seed: int, servers: int, virtual_shards: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 1 << 64, 500, np.uint64)
    keys[:2] = 0, MASK
    found = Partition(servers, virtual_shards).owners(keys)
    assert found.tolist() == [textbook_server(int(key), servers, virtual_shards) for key in keys]


@pytest.mark.parametrize("servers", [1, 2, 3, 5, 8, 100, 256])
def test_virtual_shards_are_consecutive_and_even(servers: int) -> None:
    parts = [Partition(servers).shards_of(server) for server in range(servers)]
    assert [shard for part in parts for shard in part] == list(range(256))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_split_groups_and_answers_go_back_in_order(seed: int, servers: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 1 << 64, 1000, np.uint64)
    partition = Partition(servers)
    indices, bounds = partition.split(keys)
    assert sorted(indices.tolist()) == list(range(1000)) and bounds[0] == 0 and bounds[-1] == 1000
    answers = []
    for server in range(servers):
        mine = indices[bounds[server] : bounds[server + 1]]
        assert (np.diff(mine) > 0).all()
        assert all(textbook_server(int(key), servers, 256) == server for key in keys[mine])
        answers.append(keys[mine])
    out = np.empty_like(keys)
    out[indices] = np.concatenate(answers)
    assert np.array_equal(out, keys)


def test_no_keys_are_split_into_nothing() -> None:
    indices, bounds = Partition(3).split(np.zeros(0, np.uint64))
    assert len(indices) == 0 and bounds == [0, 0, 0, 0]


def test_consecutive_keys_are_spread_evenly() -> None:
    counts = np.bincount(Partition(4).owners(np.arange(100_000, dtype=np.uint64)), minlength=4)
    assert (abs(counts - 25_000) < 1000).all()


def test_the_table_of_a_server_keeps_its_bound() -> None:
    """High bits would put all keys of a server into one part of its table."""
    keys = np.arange(80_000, dtype=np.uint64)
    table = Table(1)
    table.find_or_insert(keys[Partition(4).owners(keys) == 3])
    assert len(table) > 15_000 and table.nbytes <= 1.2 * table.data_nbytes


def test_matrices_have_an_owner_by_their_name() -> None:
    partition = Partition(3)
    owners = [partition.owner_of_name(f"layer{i}.weight") for i in range(60)]
    assert set(owners) == {0, 1, 2}
    assert owners == [partition.owner_of_name(f"layer{i}.weight") for i in range(60)]


@pytest.mark.parametrize(("servers", "shards"), [(0, 256), (3, 2), (1, 100), (1, 1 << 17)])
def test_bad_numbers_are_refused(servers: int, shards: int) -> None:
    with pytest.raises(DataError, match="must be"):
        Partition(servers, shards)
