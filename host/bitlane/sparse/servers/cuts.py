"""Consistent cuts of a shard that keeps learning: all its serving weights, or those that changed since a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.tables.codebooks import Codebook
from bitlane.sparse.tables.combining import difference
from bitlane.sparse.tables.frozen import FrozenTable, freeze

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Cut:
    """The serving weights of a shard at one moment.

    Attributes
    ----------
    rows : FrozenTable
        Of all keys, or of those that were added or changed since the parent.
    deleted : FrozenTable or None
        Of a change: the keys that went.
    dense : dict of float32 arrays
        The matrices of the shard.
    total : int
        Keys of the shard.
    clipped : int, default=0
        Values of `rows` that lay outside the outer levels of the codebook.
    """

    rows: FrozenTable
    deleted: FrozenTable | None
    dense: Mapping[str, Floats]
    total: int
    clipped: int = 0


@dataclass(frozen=True)
class _Version:
    name: str | None
    codebook: Codebook | None


class ShardCuts:
    """Takes the cuts of one shard. One thread at a time may call `take`; others keep learning.

    The first cut switches on the log of changed keys. A cut takes the keys out of it, and keeps them until the next
    one: if that is a change of the cut's version, the version was published; if it is a change of the version before,
    publishing has failed, and the keys are put back.

    Parameters
    ----------
    parameters : SparseParameters
    matrices : dict of Matrix
    quiet : callable, optional
        Returns a section in which no update of several rows or matrices is half applied. Rows by themselves are cut in
        `Table.frozen`.
    """

    def __init__(
        self,
        parameters: SparseParameters,
        matrices: Mapping[str, Matrix],
        quiet: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        self._parameters, self._matrices, self._quiet = parameters, matrices, quiet
        self._before = self._behind = _Version(None, None)  # the last cut
        self._taken: Keys = np.zeros(0, np.uint64)  # by the last cut

    def take(
        self,
        version: str,
        parent: str | None = None,
        *,
        codebook: Codebook | None = None,
        read_parent: Callable[[], FrozenTable],
    ) -> Cut:
        """Return a cut. Updates wait until the rows are copied.

        Parameters
        ----------
        version : str
            Name of the version that the cut is for, if it is published.
        parent : str, optional
            Name of the version whose changes are wanted. Default: all rows.
        codebook : Codebook, optional
            Of a cut with all rows. A change has that of its parent.
        read_parent : callable
            Returns all rows of the parent in this shard. Called if the log does not begin with the parent: this process
            did not publish it.

        Raises
        ------
        MemoryError
            The keys are put back.
        """
        table, changes = self._parameters.table, self._parameters.table.changes
        with self._quiet(), table.frozen():
            known = parent is not None and self._settle(parent)
            codebook = self._behind.codebook if known else codebook
            self._before, self._behind = self._behind, _Version(version, codebook)
            self._taken = keys = changes.take()
            changes.tracking = True
            dense = {name: matrix.pull() for name, matrix in self._matrices.items()}
            total = len(table)
            if known:
                slots = table.find(keys)
                present = slots >= 0
                weights = self._parameters.weights_at(slots[present])
            else:
                full = freeze(self._parameters.items(), total, self._width)
        if known:
            changed = freeze([(keys[present], weights)], len(weights), self._width, codebook)
            clipped = 0 if codebook is None else codebook.count_outside(weights)
            return Cut(changed, _keys_alone(keys[~present]), dense, total, clipped)
        if parent is None:
            return cut_of(full, dense, codebook)
        old = read_parent()
        self._behind = _Version(version, old.codebook)
        return cut_of(full, dense, old=old)

    @property
    def _width(self) -> int:
        return self._parameters.layout.values

    def _settle(self, parent: str) -> bool:
        """Return whether the log has all changes since `parent`, after keys of an unpublished cut were put back."""
        if parent == self._behind.name:
            return True
        if parent == self._before.name:
            self._parameters.table.changes.add(self._taken)
            self._behind = self._before
            return True
        return False


def cut_of(
    full: FrozenTable, dense: Mapping[str, Floats], codebook: Codebook | None = None, old: FrozenTable | None = None
) -> Cut:
    """Return the cut of all rows of a shard.

    Parameters
    ----------
    full : FrozenTable
        The rows, as float32.
    dense : dict of float32 arrays
        The matrices of the shard.
    codebook : Codebook, optional
        Of a cut with all rows. Default: float32.
    old : FrozenTable, optional
        All rows of the parent: the cut is the change since then, with the codebook of these rows.

    Raises
    ------
    DataError
        A weight is not finite, and there is a codebook.
    """
    codebook = codebook if old is None else old.codebook
    rows = full if codebook is None else freeze(full.items(), len(full), full.width, codebook)
    rows, deleted = (rows, None) if old is None else difference(old, rows)
    clipped = 0
    if codebook is not None:
        clipped = sum(codebook.count_outside(full.read(full.find(keys))) for keys, _ in rows.items())
    return Cut(rows, deleted, dense, len(full), clipped)


def _keys_alone(keys: Keys) -> FrozenTable:
    return freeze([(keys, np.zeros((len(keys), 0), np.float32))], len(keys), 0)
