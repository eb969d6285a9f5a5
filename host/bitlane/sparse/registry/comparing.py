"""What differs between two versions."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.scoring.layers import LayeredTable, PartitionedTable
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import merged
from bitlane.sparse.tables.frozen import FrozenTable

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class KeyChange:
    """The change of a row.

    Attributes
    ----------
    key : int
    distance : float
        Euclidean, between the weights before and after; absent weights are 0.
    before, after : tuple of float
    """

    key: int
    distance: float
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True)
class VersionDifference:
    """What differs between two versions.

    Attributes
    ----------
    old, new : int
    rows : int
        Of the new version.
    added, changed, deleted : int
        Rows.
    largest : tuple of KeyChange
        The largest changes of weights, largest first.
    """

    old: int
    new: int
    rows: int
    added: int
    changed: int
    deleted: int
    largest: tuple[KeyChange, ...]


def compare(registry: ModelRegistry, old: int, new: int, top: int = 10) -> VersionDifference:
    """Compare the rows of two versions.

    Parameters
    ----------
    registry : ModelRegistry
    old, new : int
    top : int, default=10
        How many of the largest changes are listed.

    Raises
    ------
    DataError
        A version is missing or damaged, or their rows have other sizes.
    """
    before, after = _Rows(registry, old), _Rows(registry, new)
    if before.width != after.width:
        raise DataError(f"version {old} has {before.width} weights a row, version {new} {after.width}")
    added = changed = deleted = 0
    largest: list[tuple[float, int, tuple[float, ...], tuple[float, ...]]] = []

    def note(keys: Keys, one: Floats, other: Floats) -> None:
        nonlocal largest
        distances = np.linalg.norm(other.astype(np.float64) - one, axis=1)
        for index in np.argsort(-distances, kind="stable")[:top].tolist():
            rows = tuple(one[index].tolist()), tuple(other[index].tolist())
            largest.append((float(distances[index]), int(keys[index]), *rows))
        largest = heapq.nlargest(top, largest)

    for keys, rows in after.items():
        earlier, known = before.table.lookup(keys)
        moved = known & (earlier.view(np.uint32) != rows.view(np.uint32)).any(axis=1)
        added, changed = added + int((~known).sum()), changed + int(moved.sum())
        each = moved | ~known
        note(keys[each], earlier[each], rows[each])
    for keys, rows in before.items():
        gone = ~after.table.lookup(keys)[1]
        deleted += int(gone.sum())
        note(keys[gone], rows[gone], np.zeros_like(rows[gone]))
    listed = tuple(KeyChange(key, distance, one, other) for distance, key, one, other in largest)
    return VersionDifference(old, new, after.count, added, changed, deleted, listed)


class _Rows:
    """All rows of a version."""

    def __init__(self, registry: ModelRegistry, version: int):
        chain = registry.chain(version)
        self._shards: list[FrozenTable] = [merged(registry.shard(chain, shard)) for shard in range(chain[-1].shards)]
        partition = Partition(chain[-1].shards, chain[-1].virtual_shards)
        self.table = PartitionedTable([LayeredTable(shard) for shard in self._shards], partition)
        self.width, self.count = self._shards[0].width, sum(map(len, self._shards))

    def items(self) -> Iterator[tuple[Keys, Floats]]:
        for shard in self._shards:
            yield from shard.items()
