"""Sparse parameters: rows by 64-bit key in a table, read as weights and updated by gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import Layout, ParameterBlock
from bitlane.sparse.parameters.rows import initialise_rows, read_weights, update_rows
from bitlane.sparse.tables.table import Table

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class SparseParameters:
    """Parameters by key: each key has a row of weights and of their optimizers' state.

    Parameters
    ----------
    blocks : sequence of ParameterBlock
        The layout of a row.
    seed : int, default=0
        Of the first weights.
    **options
        Those of `Table`: admission and expiry.

    Attributes
    ----------
    layout : Layout
    table : Table
    """

    def __init__(self, blocks: Sequence[ParameterBlock], seed: int = 0, **options: Any):
        self.layout = Layout(blocks)
        self.seed = np.uint64(seed)
        self._plan, self._settings = self.layout.plan, self.layout.settings()
        random = any(block.initial_scale or block.optimizer.settings()[-1] for block in self.layout.blocks)
        self._admits_all = options.get("admission") is None
        self.table = Table(self.layout.width, initial_rows=self.initial_rows if random else None, **options)

    def initial_rows(self, keys: Keys) -> Floats:
        """Return the first rows of `keys`, float32 [n, width].

        They depend on seed, key and position only: not on the order of the keys, the threads or the machine.
        """
        rows = np.empty((len(keys), self.layout.width), np.float32)
        initialise_rows(keys, self.seed, self._plan, self._settings, rows)
        return rows

    def pull(self, keys: Keys, *, create: bool = False) -> Floats:
        """Return the weights of `keys`.

        Parameters
        ----------
        keys : uint64 [n]
            Distinct.
        create : bool, default=False
            Insert absent keys, as training does; each counts as a sighting. Admission may still refuse them.

        Returns
        -------
        weights : float32 [n, values]
            Zeros where a key is absent.
        """
        if not create:
            return self.find(keys)[0]
        weights = np.empty((len(keys), self.layout.values), np.float32)
        with self.table.pinned(keys) as slots:
            read_weights(self.table.rows, slots, self._plan, self._settings, weights)
        return weights

    def find(self, keys: Keys) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the weights of `keys`, uint64 [n], float32 [n, values], and which of them the table has, bool [n]."""
        weights = np.empty((len(keys), self.layout.values), np.float32)
        with self.table.updating():
            slots = self.table.find(keys)
            read_weights(self.table.rows, slots, self._plan, self._settings, weights)
        return weights, slots >= 0

    def peek(self, keys: Keys) -> Floats:
        """Return the rows of `keys`, float32 [n, width]; absent keys have the rows with which they would be inserted.

        With admission, absent keys have zeros. Nothing changes.
        """
        with self.table.updating():
            slots = self.table.find(keys)
            rows = self.table.rows[slots] if len(self.table) else np.zeros((len(keys), self.layout.width), np.float32)
        missing = slots < 0
        if missing.any():
            rows[missing] = self.initial_rows(keys[missing]) if self._admits_all else 0
        return rows

    def push(self, keys: Keys, gradients: Floats, rows_seen: float = 0, *, create: bool = False) -> None:
        """Take one step of the optimizers for each key.

        A weight whose gradient is 0 does not change: not by penalties either.

        Parameters
        ----------
        keys : uint64 [n]
            Distinct.
        gradients : float32 [n, values]
        rows_seen : float, default=0
            Weight of the rows that the model has learned before: SGD's rate decays with them.
        create : bool, default=False
            Insert absent keys before; each counts as a sighting. Otherwise, or if admission refuses them, they are left
            out.
        """
        if gradients.shape != (len(keys), self.layout.values):
            raise DataError(
                f"{len(keys)} keys need gradients [{len(keys)}, {self.layout.values}]; got {list(gradients.shape)}"
            )
        if create:
            with self.table.pinned(keys) as slots:
                self.step_rows(self.table.rows, slots, gradients, float(rows_seen))
            return
        with self.table.updating():
            self.table.changes.add(keys)
            self.step_rows(self.table.rows, self.table.find(keys), gradients, float(rows_seen))

    def step_rows(self, rows: Floats, slots: NDArray[np.int64], gradients: Floats, rows_seen: float) -> None:
        """Take a step in rows of any array.

        Parameters
        ----------
        rows : float32 [m, width]
        slots : int64 [n]
            Distinct; the gradient of -1 is left out.
        gradients : float32 [n, values]
        rows_seen : float
        """
        update_rows(rows, slots, self._plan, self._settings, gradients, float(rows_seen))

    def items(self, keep: Callable[[Keys], NDArray[np.bool_]] | None = None) -> Iterator[tuple[Keys, Floats]]:
        """Yield keys [n] and their weights [n, values], in the order of the keys' words.

        Parameters
        ----------
        keep : callable, optional
            Returns for keys [n] which of them are wanted. Default: all.
        """
        for keys, rows, *_ in self.table.items():
            if keep is not None:
                mine = keep(keys)
                keys, rows = keys[mine], rows[mine]
            yield keys, self.weights_of(rows)

    def weights_of(self, rows: Floats) -> Floats:
        """Return the weights [n, values] in copies of rows [n, width], as `Table.items` gives them."""
        weights = np.empty((len(rows), self.layout.values), np.float32)
        read_weights(rows, np.arange(len(rows)), self._plan, self._settings, weights)
        return weights

    def weights_at(self, slots: NDArray[np.int64]) -> Floats:
        """Return the weights [n, values] of slots of the table, in a section in which slots stay valid."""
        weights = np.empty((len(slots), self.layout.values), np.float32)
        read_weights(self.table.rows, slots, self._plan, self._settings, weights)
        return weights

    def squared_gradients(self, rows: Floats) -> Floats:
        """Return the sum of the squared gradients of each weight [n, values] in copies of rows [n, width].

        It measures how much a change of the weight costs: half the square of the change times this sum is about the
        growth of the loss over all rows learned (the diagonal of the empirical Fisher matrix). 1 where the optimizer
        has no such sum.
        """
        sums = np.ones((len(rows), self.layout.values), np.float32)
        for start, (_, first, size, *_), block in zip(
            self.layout.starts, self.layout.plan, self.layout.blocks, strict=True
        ):
            if block.optimizer.floats == 2:
                state = rows[:, start + size : start + 2 * size]
                sums[:, first : first + size] = state - np.float32(block.optimizer.settings()[-1])
        return np.maximum(sums, 0)

    def has_weight(self, keys: Keys, rows: Floats) -> NDArray[np.bool_]:
        """Return which rows have a weight other than 0: what `Table.sweep` keeps to drop the zeros of an L1 penalty."""
        return np.asarray(np.any(self.weights_of(rows) != 0, axis=1))
