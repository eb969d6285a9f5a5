"""A registry whose versions are served in shards: what a server loads of a version, and what the front does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.registry.registry import ModelRegistry, layered
from bitlane.sparse.scoring.layers import Keys, LayeredTable, PartitionedTable, WeightTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import ShardChange
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.model import ShardedModel
from bitlane.sparse.tables.frozen import Chunks, FrozenTable, freeze

_ATTEMPTS = 20  # lookups until all shards have answered one
_FIRST_KEYS = np.arange(1 << 12, dtype=np.uint64)  # of all shards


class RegistryShard:
    """Loads one shard of a version: call it with the version.

    Parameters
    ----------
    uri : str
        Of the registry.
    shard : int
    partition : Partition
        How keys are spread over the servers. A version may have been published with another number of shards.
    cache : Path, optional
        A local folder for copies of remote files.
    """

    def __init__(self, uri: str, shard: int, partition: Partition, cache: Path | None = None):
        if not 0 <= shard < partition.servers:
            raise DataError(f"shard must be 0 to {partition.servers - 1}; got {shard}")
        self._registry, self._cache = ModelRegistry(uri), cache
        self._shard, self._partition = shard, partition
        self._version: int | None = None  # that was loaded last
        self._tables: dict[int, LayeredTable] = {}  # of it, by published shard

    def __call__(self, version: int) -> WeightTable:
        """Return the shard's table in a version. A change of the version that was loaded last shares its rows.

        Raises
        ------
        DataError, BitlaneError
            As of `ModelRegistry.load`.
        """
        chain = self._registry.chain(version)
        last, known, below = chain[-1], [each.version for each in chain], dict[int, LayeredTable]()
        if self._version in known:
            chain, below = chain[known.index(self._version) + 1 :], self._tables
        published = Partition(last.shards, last.virtual_shards)
        tables = {}
        for shard in (each for each in range(published.servers) if self._overlaps(published, each)):
            changes = self._registry.shard(chain, shard, self._cache)
            own = changes if published == self._partition else [self._own(change) for change in changes]
            tables[shard] = layered(below.get(shard), own)
        self._version, self._tables = version, tables
        if len(tables) == 1:
            return next(iter(tables.values()))
        nothing = LayeredTable(freeze([], 0, Layout(last.description.spec.blocks()).values))
        return PartitionedTable([tables.get(shard, nothing) for shard in range(published.servers)], published)

    def _overlaps(self, published: Partition, shard: int) -> bool:
        """Return whether keys of a published shard may be this server's."""
        if published.virtual_shards != self._partition.virtual_shards:
            return True
        mine, theirs = self._partition.shards_of(self._shard), published.shards_of(shard)
        return mine.start < theirs.stop and theirs.start < mine.stop

    def _own(self, change: ShardChange) -> ShardChange:
        """Return the rows of this server's keys."""
        return ShardChange(
            self._own_rows(change.rows), None if change.deleted is None else self._own_rows(change.deleted)
        )

    def _own_rows(self, table: FrozenTable) -> FrozenTable:
        count = sum(int(np.count_nonzero(self._mine(keys))) for keys, _ in table.items())
        return table if count == len(table) else freeze(self._chunks(table), count, table.width, table.codebook)

    def _chunks(self, table: FrozenTable) -> Chunks:
        for keys, rows in table.items():
            mine = self._mine(keys)
            yield keys[mine], rows[mine]

    def _mine(self, keys: Keys) -> NDArray[np.bool_]:
        return np.equal(self._partition.owners(keys), self._shard)


class ShardedRegistry(ModelRegistry):
    """A registry whose versions are loaded by weight servers.

    Parameters
    ----------
    uri : str
    front : Front
    """

    def __init__(self, uri: str, front: Front):
        super().__init__(uri)
        self._front = front

    def load(self, version: int, *, cache: Path | None = None, after: FrozenModel | None = None) -> ShardedModel:
        """Return a version, once each shard has a server that has loaded it; `after` changes nothing.

        Raises
        ------
        BitlaneError
            As of `Front.load`, or the dense weights or the calibrator cannot be read.
        """
        manifest = self.manifest(version)
        dense, calibrator = self.dense(manifest, cache), self.calibrator(manifest)
        self._front.load(version)
        model = ShardedModel(manifest.description.spec, self._front, dense, version, calibrator)
        for _ in range(_ATTEMPTS):  # connections are made, and functions compiled, before a request comes
            if not model.weights.lookup_partial(_FIRST_KEYS).missing:
                break
        return model
