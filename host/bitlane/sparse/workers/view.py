"""What a worker sees of the parameters: rows from the cache and the servers, with all of its own steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.servers.reads import CountsWanted
from bitlane.sparse.servers.training import RemoteRead
from bitlane.sparse.workers.cache import RowCache

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Reader = Callable[[Keys, int, "CountsWanted | None"], "Future[RemoteRead]"]


@dataclass(frozen=True)
class OwnStep:
    """A step of this worker, as the servers apply it.

    Attributes
    ----------
    number : int
    keys : uint64 [n], ascending
    gradients : float32 [n, values]
    dense : dict of float32 arrays
        Gradients of matrices by name; empty for none.
    rows_seen : int
    """

    number: int
    keys: Keys
    gradients: Floats
    dense: dict[str, Floats]
    rows_seen: int


@dataclass(frozen=True)
class Request:
    """A read that is under way."""

    keys: Keys
    cached: NDArray[np.bool_]  # which rows came from the cache
    rows: Floats  # those, [hits, width]
    clocks: NDArray[np.int64]  # up to which they are complete
    steps: int  # own steps that they have
    answer: Future[RemoteRead]  # the others


class View:
    """Reads for the minibatches of one worker, in the order of their clocks.

    With staleness 0 a read comes from the servers alone: they have all of this worker's steps by then. Otherwise rows
    come with the optimizers' state; steps of this worker that a row lacks are taken on it here, by the same
    optimizer, so that a worker always reads its own writes.

    Parameters
    ----------
    model : SparseModel
        For the layout and the optimizers; its own parameters stay empty.
    staleness : int
    cache_rows : int
    read : callable
        From keys, clock and the counts that are wanted beside, to the read of the servers.

    Attributes
    ----------
    hits, misses : int
        Keys that the cache had, and had not.
    nbytes : int
        Of all reads.
    """

    def __init__(self, model: SparseModel, staleness: int, cache_rows: int, read: Reader):
        self._model, self._staleness, self._read = model, staleness, read
        self._with_state = staleness > 0
        self._cache = RowCache(cache_rows if self._with_state else 0, model.parameters.layout.width)
        self._steps: deque[OwnStep] = deque()
        self._number = 0  # of the last own step
        self.hits = self.misses = self.nbytes = 0

    def request(self, keys: Keys, clock: int, wanted: CountsWanted | None = None) -> Request:
        """Begin to read the rows of `keys`, uint64 [n], distinct and ascending; counts never come from the cache."""
        slots = self._cache.find(keys, clock - self._staleness)
        cached = slots >= 0
        slots = slots[cached]
        hits = int(np.count_nonzero(cached))
        self.hits, self.misses = self.hits + hits, self.misses + len(keys) - hits
        answer = self._read(keys[~cached], clock, wanted)
        rows, clocks = self._cache.rows[slots], self._cache.clocks[slots]
        return Request(keys, cached, rows, clocks, self._number, answer)

    def take(self, request: Request) -> tuple[Floats, dict[str, Floats]]:
        """Wait for a read; return the weights of its keys, float32 [n, values], and those of the matrices by name."""
        read = request.answer.result()
        self.nbytes += read.nbytes
        if not self._with_state:
            shapes = {name: self._model.matrices[name].shape for name in read.dense}
            return read.rows, {name: each.reshape(shapes[name]) for name, each in read.dense.items()}
        rows = np.empty((len(request.keys), read.rows.shape[1]), np.float32)
        own, clocks = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        for chosen, values, steps, until in (
            (request.cached, request.rows, request.steps, request.clocks),
            (~request.cached, read.rows, read.own, read.clock),
        ):
            rows[chosen], own[chosen], clocks[chosen] = values, steps, until
        for step in self._steps:
            self._step(request.keys, rows, own, step)
        self._cache.put(request.keys, rows, clocks)
        return self._model.parameters.weights_of(rows), self._dense(read)

    def note(self, step: OwnStep) -> None:
        """Take account of an own step that is about to be sent. At most one read may be under way."""
        self._number = step.number
        if not self._with_state:
            return
        slots = self._cache.find(step.keys)
        self._model.parameters.step_rows(self._cache.rows, slots, step.gradients, step.rows_seen)
        self._steps.append(step)
        while len(self._steps) > 2:  # a read under way has all but the last step; the next one may lack two
            self._steps.popleft()

    def _step(self, keys: Keys, rows: Floats, own: NDArray[np.int64], step: OwnStep) -> None:
        """Take an own step on the rows that lack it."""
        if not len(step.keys):
            return
        at = np.minimum(np.searchsorted(step.keys, keys), len(step.keys) - 1)
        lacking = (step.keys[at] == keys) & (own < step.number)
        slots = np.flatnonzero(lacking)
        self._model.parameters.step_rows(rows, slots, step.gradients[at[slots]], step.rows_seen)

    def _dense(self, read: RemoteRead) -> dict[str, Floats]:
        weights = {}
        for name, row in read.dense.items():
            matrix = self._model.matrices[name]
            matrix.restore({"row": row})
            for step in self._steps:
                if step.dense and step.number > read.dense_own[name]:
                    matrix.push(step.dense[name], step.rows_seen)
            weights[name] = matrix.pull()
        return weights
