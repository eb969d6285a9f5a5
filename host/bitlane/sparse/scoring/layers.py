"""Weights by key from frozen tables: a base with what changed above it, and several shards as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.tables.combining import all_items, merge, sorted_rows
from bitlane.sparse.tables.frozen import FrozenTable, freeze

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Known = NDArray[np.bool_]


class WeightTable(Protocol):
    """What a `FrozenModel` needs of its table."""

    def lookup(self, keys: Keys) -> tuple[Floats, Known]:
        """Return the weights of keys, uint64 [n], and which are known.

        Returns
        -------
        weights : float32 [n, values]
            Zeros where a key is unknown.
        known : bool [n]
        """
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory, or of mapped files."""
        ...


class LayeredTable:
    """One shard: a base, and above it the rows that later versions have changed.

    Parameters
    ----------
    base_table : FrozenTable
    overlay : FrozenTable, optional
        Of `overlaid`.
    """

    def __init__(self, base_table: FrozenTable, overlay: FrozenTable | None = None):
        if overlay is not None and overlay.width != base_table.width:
            raise DataError(f"the base has {base_table.width} weights a row, the layer above it {overlay.width}")
        self.base, self.overlay = base_table, overlay if overlay is not None and len(overlay) else None

    @property
    def nbytes(self) -> int:
        """Bytes of base and overlay."""
        return self.base.nbytes + (0 if self.overlay is None else self.overlay.nbytes)

    def lookup(self, keys: Keys) -> tuple[Floats, Known]:
        """Return weights and which keys are known, as `WeightTable.lookup`. Removed keys are known, with weights 0."""
        ranks = self.base.find(keys)
        weights, known = self.base.read(ranks), ranks >= 0
        if self.overlay is not None:
            above = self.overlay.find(keys)
            positions = np.flatnonzero(above >= 0)
            weights[positions] = self.overlay.read(above[positions])
            known[positions] = True
        return weights, known

    def items(self) -> Iterator[tuple[Keys, Floats]]:
        """Yield all keys, uint64 [m], and the weights that `lookup` gives them, float32 [m, values]."""
        for keys, weights in self.base.items():
            if self.overlay is not None:
                below = self.overlay.find(keys) < 0
                keys, weights = keys[below], weights[below]
            yield keys, weights
        if self.overlay is not None:
            yield from self.overlay.items()


class PartitionedTable:
    """All shards of a model.

    Parameters
    ----------
    tables : sequence of WeightTable
        Of each shard, in their order.
    partition : Partition
        How keys are spread over the shards.
    """

    def __init__(self, tables: Sequence[WeightTable], partition: Partition):
        if len(tables) != partition.servers:
            raise DataError(f"{partition.servers} shards need as many tables; got {len(tables)}")
        self.tables, self._partition = list(tables), partition

    @property
    def nbytes(self) -> int:
        """Bytes of all shards."""
        return sum(table.nbytes for table in self.tables)

    def lookup(self, keys: Keys) -> tuple[Floats, Known]:
        """Return weights and which keys are known, as `WeightTable.lookup`."""
        if len(self.tables) == 1:
            return self.tables[0].lookup(keys)
        positions, bounds = self._partition.split(keys)
        lookups = [
            table.lookup(keys[positions[first:last]])
            for table, first, last in zip(self.tables, bounds[:-1], bounds[1:], strict=True)
        ]
        weights, known = np.empty((len(keys), lookups[0][0].shape[1]), np.float32), np.empty(len(keys), np.bool_)
        weights[positions] = np.concatenate([each[0] for each in lookups])
        known[positions] = np.concatenate([each[1] for each in lookups])
        return weights, known


def overlaid(overlay: FrozenTable | None, changed: FrozenTable, deleted: FrozenTable | None) -> FrozenTable:
    """Return an overlay that has a delta's rows too.

    Its weights are float32, those of quantized rows too. A removed key has weights of 0: it contributes nothing, as an
    unknown one.

    Parameters
    ----------
    overlay : FrozenTable or None
        Of the deltas before.
    changed : FrozenTable
        The delta's added and changed rows.
    deleted : FrozenTable or None
        The keys that it removes.
    """
    keys, rows = all_items(changed)
    if deleted is not None and len(deleted):
        gone = all_items(deleted)[0]
        keys = np.concatenate([keys, gone])
        rows = np.concatenate([rows, np.zeros((len(gone), changed.width), np.float32)])
        keys, rows = sorted_rows(keys, rows)
    above = freeze([(keys, rows)], len(keys), changed.width)
    return above if overlay is None else merge(overlay, above)
