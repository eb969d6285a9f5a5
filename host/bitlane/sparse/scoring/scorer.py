"""The current model of a process that scores: requests keep the model that they began with."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.scoring.model import FrozenModel

SHARED_FEATURES = 1 << 14  # of a batch, from which several threads score it


@dataclass(frozen=True)
class Scored:
    """The answer to a request.

    Attributes
    ----------
    version : int or None
        Of the model that gave all predictions.
    predictions : float32 [rows]
    known : bool [nnz]
        Which features have keys that the model has.
    missing : tuple of int
        Shards that did not answer in time: their keys counted as unknown.
    """

    version: int | None
    predictions: NDArray[np.float32]
    known: NDArray[np.bool_]
    missing: tuple[int, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether a shard is missing."""
        return bool(self.missing)


class Scorer:
    """Scores batches by one model, until another replaces it. Any number of threads may call it.

    Parameters
    ----------
    model : FrozenModel
    threads : int, default=1
        Threads that share the rows of a batch with 16,384 features or more, if the weights are here. The bits are the
        same.
    """

    def __init__(self, model: FrozenModel, threads: int = 1):
        if threads < 1:
            raise DataError(f"threads must be at least 1; got {threads}")
        self._model = model
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "bitlane-scorer") if threads > 1 else None

    @property
    def model(self) -> FrozenModel:
        """The model that the next request gets."""
        return self._model

    def swap(self, model: FrozenModel) -> FrozenModel:
        """Let another model answer from the next request on; return the one before. Nobody waits."""
        before, self._model = self._model, model
        return before

    def score(self, batch: Batch) -> Scored:
        """Return the predictions of a batch, all by one model; errors as of `FrozenModel.scores`."""
        model = self._model
        small = batch.nnz < SHARED_FEATURES or batch.rows < self._threads
        if self._pool is None or small or model.is_remote:
            return Scored(model.version, *model.predict_partial(batch))
        ends = np.searchsorted(batch.offsets, np.linspace(0, batch.nnz, self._threads + 1)[1:-1].astype(np.int64))
        bounds = [0, *ends.tolist(), batch.rows]
        shares = [batch.slice(*each) for each in itertools.pairwise(bounds)]
        results = list(self._pool.map(model.predict_partial, shares))
        predictions, known, shards = zip(*results, strict=True)
        missing = sorted({shard for each in shards for shard in each})
        return Scored(model.version, np.concatenate(predictions), np.concatenate(known), tuple(missing))

    def close(self) -> None:
        """End the threads; running requests end first."""
        if self._pool is not None:
            self._pool.shutdown()
