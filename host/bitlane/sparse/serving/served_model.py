"""The model that a service serves: the version that answers now, and the way of a request through it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.columns import batch_of_columns
from bitlane.sparse.batches.schema import Schema, read_schema
from bitlane.sparse.scoring.known import KnownKeys
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.scoring.scorer import Scored, Scorer
from bitlane.sparse.servers.lanes import RequestLimit
from bitlane.sparse.servers.wire import ServerBusy, error_name
from bitlane.sparse.serving.counts import RequestCounts
from bitlane.sparse.serving.recording import Recorder
from bitlane.sparse.serving.requests import Floats, RequestBounds, batch_of
from bitlane.support.processors import processors


class NotReady(BitlaneError):
    """No version has been loaded yet."""


@dataclass(frozen=True)
class ServedVersion:
    """A version that answers requests; nothing in it changes.

    Attributes
    ----------
    model : FrozenModel
    schema : Schema or None
        The columns of the training, for requests with a tensor a column; None for rows of keys.
    created : float or None
        When it was published, in seconds since 1970.
    since : float
        When it began to answer, in seconds since 1970.
    """

    model: FrozenModel
    schema: Schema | None = None
    created: float | None = None
    since: float = field(default_factory=time.time)

    @cached_property
    def keys(self) -> KnownKeys:
        """Counts the features of a request by column; it holds no counts itself."""
        return KnownKeys(self.schema)

    @property
    def number(self) -> int:
        """The version's number."""
        return self.model.version or 0

    @property
    def uses_fields(self) -> bool:
        """Whether fields change the predictions: requests to other models may leave them out."""
        return self.model.spec.kind not in ("lr", "fm")

    def check_fields(self, given: bool, features: int) -> None:
        """Raise DataError if a request with features lacks the fields that this version needs."""
        if features and not given and self.uses_fields:
            raise DataError(f"version {self.number} of the model uses fields: send a field for each key")

    def warm_up(self) -> None:
        """Score rows, so that no request waits for a compiler."""
        self.model.predict(batch_of(np.zeros(1, np.uint64), np.array([0, 1], np.int64)))
        if self.schema is not None:
            for cell in (pa.array([""]), pa.array([1])):
                number = pa.array([1.0])
                columns = [number if name in self.schema.numeric else cell for name in self.schema.columns]
                cells = pa.record_batch(columns, names=list(self.schema.columns))
                batch_of_columns(cells, self.schema, location=RowLocation("warm-up"), labelled=False)


def schema_of(data: Mapping[str, Any]) -> Schema | None:
    """Return the columns of a training, or None if its rows do not have a cell a column.

    Parameters
    ----------
    data : mapping
        Settings of the training's data. The schema is without the time: no model scores by it.
    """
    schema = read_schema(data)
    return replace(schema, time=None) if isinstance(schema, Schema) else None


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes
    ----------
    predictions : float32 [rows]
    version : int
        That made all of them.
    seconds : float
        In the server, waiting included.
    missing : tuple of int
        Shards of the model that did not answer in time: their keys counted as unknown.
    """

    predictions: Floats
    version: int
    seconds: float
    missing: tuple[int, ...] = ()


class ServedModel:
    """A model by its name, and the version of it that answers. For several threads.

    Parameters
    ----------
    name : str
    bounds : RequestBounds, optional
    limit : int, default=64
        Requests that run or wait; more are refused.
    threads : int, optional
        Requests that are scored at once; as many threads share the rows of a large one. Default: the number of
        processor cores.
    recorder : Recorder, optional
        Gets requests with their answers.

    Attributes
    ----------
    name : str
    bounds : RequestBounds
    limit : RequestLimit
        Every request must be within its `admitted`.
    counts : RequestCounts
    recorder : Recorder or None
    """

    def __init__(
        self,
        name: str,
        *,
        bounds: RequestBounds | None = None,
        limit: int = 64,
        threads: int | None = None,
        recorder: Recorder | None = None,
    ):
        self.name, self.bounds = name, bounds or RequestBounds()
        self.limit, self.counts = RequestLimit(limit), RequestCounts()
        self._threads = threads or processors()
        self._running = threading.BoundedSemaphore(self._threads)
        self._scorer: Scorer | None = None
        self.recorder = recorder
        self._version: ServedVersion | None = None

    @property
    def version(self) -> ServedVersion:
        """The version that answers now.

        Raises
        ------
        NotReady
        """
        version = self._version
        if version is None:
            raise NotReady(f"model {self.name} is not loaded yet")
        return version

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered."""
        return self._version is not None

    def swap(self, version: ServedVersion) -> None:
        """Answer from another version from now on; requests that run end with theirs."""
        if self._scorer is None:
            self._scorer = Scorer(version.model, self._threads)
        else:
            self._scorer.swap(version.model)
        self._version = version

    def answer(self, lane: str, read: Callable[[ServedVersion], Batch], begin: float | None = None) -> Answer:
        """Answer a request, which has been admitted.

        Parameters
        ----------
        lane : {"flight", "http"}
        read : callable
            Returns the rows of the request, as this version has them.
        begin : float, optional
            When the request came, by `time.perf_counter`. Default: now.

        Raises
        ------
        DataError
            The request is not valid.
        BitlaneError
            It cannot be answered.
        """
        begin = time.perf_counter() if begin is None else begin
        with self._running:
            batch, version, scored = self._score(read)
        seconds = time.perf_counter() - begin
        self.counts.add(lane, batch.rows, seconds, scored.is_partial)
        self.counts.add_features(*version.keys.count(batch, scored.known))
        if self.recorder is not None and not scored.is_partial:
            self.recorder.add(batch, scored.predictions, version.number)
        return Answer(scored.predictions, version.number, seconds, scored.missing)

    def _score(self, read: Callable[[ServedVersion], Batch]) -> tuple[Batch, ServedVersion, Scored]:
        while True:
            version, scorer = self.version, self._scorer
            assert scorer is not None
            batch = read(version)
            self.bounds.check(batch.rows, batch.nnz)
            scored = scorer.score(batch)
            if scored.version == version.model.version:  # else the versions were swapped: read its columns
                return batch, version, scored

    def count_error(self, lane: str, error: BaseException) -> None:
        """Count a request that got an error."""
        kind = "busy" if isinstance(error, ServerBusy) else "request" if isinstance(error, DataError) else "server"
        if isinstance(error, BitlaneError) and error_name(error) == "closing":
            kind = "closing"
        self.counts.add_error(lane, kind, " ".join(str(error).split()) or type(error).__name__)
