"""Error feedback with a limit: large rows are sent, the others stored; those without room are sent unchanged.

A row of gradients g is added to the residual of its key, r: ``a = r + g``. Of the rows of a minibatch, those with
the largest ``|a|^2`` are sent as q(a), and ``r = a - q(a)``; of the others, r = a. The residuals lie in a table with a
limit. If they are too many, those whose keys come least often leave, the smallest first: they are sent at full
precision in the same message. All numbers are integers in units of 2^-20, so that for each key, and to the bit,

    sum of what was sent + r = sum of what came in.

Rows of popular keys stay because only rows that come again save bytes. Sources: Stich et al., Sparsified SGD with
memory (2018); ternary values as in Li et al., Ternary weight networks (2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.row_codecs import UNIT, GradientChunk
from bitlane.sparse.workers.popularity import Popularity
from bitlane.sparse.workers.residuals import ResidualTable
from bitlane.sparse.workers.rounding import EXACT, add_rows, to_nearest_ternary

_CELLS = 8  # bytes that count keys, for each residual row

Keys = NDArray[np.uint64]
Units = NDArray[np.int64]


class ErrorFeedback:
    """Residuals, and the choice of rows.

    Parameters
    ----------
    capacity : int
        Residual rows at most.
    groups : tuple of int
        Sizes of the groups of a row's values that have a scale each; together all values.
    share : float
        Of the minibatch's rows that are sent because they are large.
    ternary : bool
        Send these as ternary values, or else with all their bits.
    debug : bool
        Check the sums of each key after each minibatch.

    Attributes
    ----------
    table : ResidualTable
    evicted : int
        Rows that have left for want of room.
    """

    def __init__(self, capacity: int, groups: tuple[int, ...], share: float, ternary: bool, debug: bool):
        self.table, self.evicted = ResidualTable(capacity, sum(groups)), 0
        self._groups, self._popularity = groups, Popularity(_CELLS * capacity)
        self._share, self._ternary = share, ternary
        self._ledger = Ledger() if debug else None

    @property
    def nbytes(self) -> int:
        """Bytes of memory for residuals and counts."""
        return self.table.nbytes + self._popularity.nbytes

    def add(self, keys: Keys, units: Units) -> int:
        """Add the residuals of a minibatch to its gradients, in place, and take them out of the table.

        Parameters
        ----------
        keys : uint64 [n]
            Distinct.
        units : int64 [n, values]
            Sizes above 2^24 become those of a float32.

        Returns
        -------
        int
            The first row that is too large, or -1. If there is one, the table is unchanged.
        """
        self._popularity.add(keys)
        slots = self.table.find(keys)
        if self._ledger is not None:
            self._ledger.receive(keys, units)
        row = int(add_rows(self.table.rows, slots, units))
        if row < 0:
            self.table.remove(slots[slots >= 0])
        return row

    def choose(self, keys: Keys, units: Units) -> list[GradientChunk]:
        """Return what is sent of the sums of `add`, and store the rest."""
        table = self.table
        top = np.zeros(len(keys), np.bool_)
        top[largest_of(_sizes(units), max(1, round(self._share * len(keys))))] = True
        exact = top & (np.abs(units).max(axis=1, initial=0) > EXACT) if self._ternary else top
        coded = np.flatnonzero(top & ~exact)
        ternary = self._nearest_ternary(keys[coded], units[coded])
        rest = units.copy()
        rest[coded] -= ternary.units()
        rest[exact] = 0
        staying = np.flatnonzero(rest.any(axis=1))
        leaving, gone = self._without_room(keys[staying], rest[staying])
        exact[staying[leaving]] = True
        chunk = GradientChunk(
            "fixed",
            np.concatenate([keys[exact], table.keys[gone]]),
            np.concatenate([units[exact].astype(np.int32), table.rows[gone]]),
        )
        table.remove(gone)
        staying = staying[~leaving]
        table.insert(keys[staying], rest[staying].astype(np.int32))
        return self._checked([ternary.take(np.flatnonzero(ternary.rows.any(axis=1) & ~exact[coded])), chunk])

    def flush(self) -> list[GradientChunk]:
        """Return all residuals at full precision, and store none."""
        table = self.table
        all_slots = np.arange(table.count)
        chunk = GradientChunk("fixed", table.keys[all_slots], table.rows[all_slots])
        table.remove(all_slots)
        return self._checked([chunk])

    def _nearest_ternary(self, keys: Keys, units: Units) -> GradientChunk:
        symbols, scales = np.empty(units.shape, np.int8), np.empty((len(keys), len(self._groups)), np.uint8)
        to_nearest_ternary(units, np.array(self._groups), symbols, scales)
        return GradientChunk("ternary", keys, symbols, scales, self._groups)

    def _without_room(self, keys: Keys, new: Units) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return which of the `new` rows of `keys` leave, bool [n], and the slots of those in the table that do."""
        table = self.table
        excess = max(len(new) + table.count - table.capacity, 0)
        sizes = np.concatenate([_sizes(new), _sizes(table.rows[: table.count])])
        counts = self._popularity.counts(np.concatenate([keys, table.keys[: table.count]]))
        worth = counts + sizes / (1.001 * sizes.max(initial=1))  # sizes decide between equal counts
        leaving = np.zeros(len(worth), np.bool_)
        leaving[largest_of(-worth, excess)] = True
        self.evicted += excess
        return leaving[: len(new)], np.flatnonzero(leaving[len(new) :])

    def _checked(self, chunks: list[GradientChunk]) -> list[GradientChunk]:
        if self._ledger is not None:
            self._ledger.send(chunks)
            self._ledger.check(self.table)
        return chunks


class Ledger:
    """Sums of integers by key, in a dictionary: what came in minus what was sent.

    It grows with the keys that are stored, and takes more time than the work that it checks: for tests and debugging.
    """

    def __init__(self) -> None:
        self._open: dict[int, NDArray[np.int64]] = {}

    def receive(self, keys: NDArray[np.uint64], units: NDArray[np.int64]) -> None:
        """Count what comes in, int64 [n, values]. Sums above 2^24 in size are rounded to float32."""
        for key, row in zip(keys.tolist(), units, strict=True):
            total = row + self._open.get(key, np.int64(0))
            self._open[key] = np.where(np.abs(total) > EXACT, total.astype(np.float32).astype(np.int64), total)

    def send(self, chunks: Sequence[GradientChunk]) -> None:
        """Count what a server applies."""
        for chunk in chunks:
            for key, row in zip(chunk.keys.tolist(), chunk.gradients().astype(np.float64) / UNIT, strict=True):
                self._open[key] = self._open[key] - row.astype(np.int64)

    def check(self, table: ResidualTable) -> None:
        """Compare with what is stored.

        Raises
        ------
        BitlaneError
            A key whose sums differ.
        """
        self._open = {key: row for key, row in self._open.items() if row.any()}
        stored: dict[int, Any] = dict(zip(table.keys[: table.count].tolist(), table.rows[: table.count], strict=True))
        for key in self._open.keys() | stored.keys():
            wanted, actual = self._open.get(key, np.zeros(1)), stored.get(key, np.zeros(1))
            if not np.array_equal(wanted, actual):
                raise BitlaneError(
                    f"a push lost gradients of key {key}: received minus sent is {wanted.tolist()}; stored is "
                    f"{actual.tolist()}; please report this"
                )


def largest_of(sizes: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the indices of the `count` largest of some sizes, or of all if there are fewer."""
    count = min(count, len(sizes))
    return np.argpartition(-sizes, count - 1)[:count] if count else np.zeros(0, np.int64)


def _sizes(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of squares of each row."""
    wide = rows.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))
