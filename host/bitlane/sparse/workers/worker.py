"""A worker: it learns the minibatches of its share of the rows, clock after clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.pipeline import ahead
from bitlane.sparse.batches.source import Source, Stoppable, Stream, Thinned
from bitlane.sparse.models.losses import check_labels
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.row_weights import check_weights, warn_of_long_steps
from bitlane.sparse.parameters.statistics import StatisticsSettings
from bitlane.sparse.parameters.unique import unique_keys
from bitlane.sparse.periods import CLOCK_ROWS, WINDOW_ROWS
from bitlane.sparse.servers.counts import CountChunk
from bitlane.sparse.servers.reads import CountsWanted
from bitlane.sparse.servers.row_codecs import ROW_CODECS, GradientChunk
from bitlane.sparse.servers.steps import WorkerStep
from bitlane.sparse.servers.training import RemoteRead, TrainingServers
from bitlane.sparse.workers.enriching import Enricher, PreparedCounts
from bitlane.sparse.workers.minibatches import learned_before, minibatches, weight_before
from bitlane.sparse.workers.pushing import Pusher, PushSettings
from bitlane.sparse.workers.view import OwnStep, Request, View

_IDLE_SECONDS = 0.05  # a worker whose stream has nothing new lets the others continue

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class WorkerOptions:
    """How workers train.

    Parameters
    ----------
    workers : int
    staleness : int, default=0
        By how many minibatches a worker may be ahead of another. 0: bulk-synchronous, each run with the same bits.
    epochs : int, default=1
    cache_rows : int, default=131,072
        Rows that a worker keeps, with a staleness above 0.
    push : PushSettings, optional
        How gradients are sent.
    pull : {"float32", "float16", "int8"}, default="float32"
        How rows are read. ``"int8"`` needs staleness 0.
    expire_rows : int, default=0
        A key that no row has had for about so many rows is removed; 0 keeps all.
    drop_zeros : bool, default=False
        Remove keys whose weights are all 0.
    sweep_rows : int, default=50,000
        Rows of all workers between two removals.
    """

    workers: int
    staleness: int = 0
    epochs: int = 1
    cache_rows: int = 1 << 17
    push: PushSettings = field(default_factory=PushSettings)
    pull: str = "float32"
    expire_rows: int = 0
    drop_zeros: bool = False
    sweep_rows: int = WINDOW_ROWS

    def __post_init__(self) -> None:
        least = {"workers": 1, "staleness": 0, "epochs": 1, "cache_rows": 0, "expire_rows": 0, "sweep_rows": 1}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise DataError(f"{name}={getattr(self, name)}: must be at least {smallest}")
        if self.pull not in ROW_CODECS:
            raise DataError(f"pull={self.pull!r}: choose one of {', '.join(ROW_CODECS)}")
        if self.pull == "int8" and self.staleness:
            raise DataError("pull='int8' needs staleness=0: the cache stores optimizer state, too fine for 8 bits")


@dataclass
class WorkerCounts:
    """What a worker has done so far.

    Attributes
    ----------
    rows, steps : int
    hits, misses : int
        Keys that the cache had, and had not.
    read_bytes, step_bytes : int
        Of rows that were read, and of steps that were sent, without what the transport adds.
    residual_rows : int
        Rows whose gradients wait.
    negatives_kept, negatives_read : int
        Rows of label 0, where only a share of them is learned: see `bitlane.sparse.batches.thinning`.
    reading, waiting : float
        Seconds in which the worker waited for its rows, and for the servers.
    """

    rows: int = 0
    steps: int = 0
    hits: int = 0
    misses: int = 0
    read_bytes: int = 0
    step_bytes: int = 0
    residual_rows: int = 0
    negatives_kept: int = 0
    negatives_read: int = 0
    reading: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True)
class Minibatch:
    """Rows to learn, their distinct keys in ascending order, and the offset behind them.

    With statistics, the keys are those of the rows with their features.
    """

    batch: Batch
    keys: Keys
    index: NDArray[np.int64]
    offset: Mapping[str, Any]
    prepared: PreparedCounts | None = None


Reading = tuple[Minibatch, Request]


class Worker:
    """Learns its share of the rows with the parameters of servers.

    Reads, computation and steps overlap: while a minibatch is learned, the rows of the next one are read and the step
    before is sent.

    Parameters
    ----------
    index : int
        Of this worker, from 0.
    model : SparseModel
        Computes the gradients; its own parameters stay empty.
    servers : TrainingServers
        With the name `rounds.worker_name(index)`.
    source : FileSource or FolderStream
        This worker's share of the rows, in minibatches of ``model.spec.batch_rows`` rows.
    options : WorkerOptions
    on_scores : callable
        Called with the scores of each minibatch before it was learned, its rows, and the offset behind it.
    statistics : StatisticsSettings, optional
        Of keys that the servers count: features of later rows.

    Attributes
    ----------
    counts : WorkerCounts
    """

    def __init__(
        self,
        index: int,
        model: SparseModel,
        servers: TrainingServers,
        source: Source,
        options: WorkerOptions,
        on_scores: Callable[[Floats, Batch, Mapping[str, Any]], object],
        statistics: StatisticsSettings | None = None,
    ):
        self.index, self.options, self.counts = index, options, WorkerCounts()
        self._model, self._servers, self._source, self._on_scores = model, servers, source, on_scores
        size, window = model.spec.batch_rows, options.sweep_rows
        self._enricher = None if statistics is None else Enricher(statistics, options.workers, size, window)
        self._pool = ThreadPoolExecutor(3, "bitlane-worker")
        self._view = View(model, options.staleness, options.cache_rows, self._read)
        layout = model.parameters.layout
        groups = [block.size for block in layout.blocks]
        self._pusher = Pusher(options.push, layout.values, model.spec.seed + index, groups)
        self._sent: Future[int] | None = None
        self._number = self._clock = 0
        self._learned = self._swept = 0  # rows of this worker that were learned; of all workers, at the last removal
        self._weight = 0.0  # of the rows of this worker that were learned

    def run(self, stop: threading.Event) -> None:
        """Learn until the rows end or `stop` is set; then send all gradients that wait.

        A worker that runs again, even in another process, resumes after its last step.

        Raises
        ------
        DataError
            A row cannot be used.
        BitlaneError
            Servers did not answer in time.
        """
        start = self._servers.resumption()
        self._number, self._clock, offset = start.number, start.clock, start.offset
        self._learned, self._weight = learned_before(offset), weight_before(offset)
        feed = ahead(self._prepared(start.offset), 2)
        with self._pool, closing(feed):
            taken = self._pool.submit(next, feed, None)
            following: Reading | None = None
            try:
                while not stop.is_set():
                    current = following or self._next(taken, offset, stop)
                    if current is None:
                        break
                    taken = taken if following else self._pool.submit(next, feed, None)
                    minibatch, request = current
                    batch, weights, dense = self._wait(minibatch, request)
                    following = self._look_ahead(taken)
                    taken = self._pool.submit(next, feed, None) if following else taken
                    self._learn(minibatch, batch, weights, dense)
                    offset = minibatch.offset
                self._send(self._pusher.flush(), {}, offset, last=True)
                self._acknowledge()
            finally:
                if isinstance(self._source, Stoppable):
                    self._source.stop()
                wait([taken])  # a running generator cannot be closed

    # --- inside
    def _prepared(self, offset: Mapping[str, Any]) -> Generator[Minibatch, None, None]:
        with closing(minibatches(self._source, self._model.spec.batch_rows, self.options.epochs, offset)) as batches:
            for batch, offset_behind in batches:
                check_labels(self._model.spec.loss, batch.labels)
                check_weights(batch.weights)
                warn_of_long_steps(self._model.spec, batch.weights)
                prepared = None if self._enricher is None else self._enricher.prepare(batch, offset_behind)
                keys, index = unique_keys(batch.keys if prepared is None else prepared.batch.keys)
                order = np.argsort(keys)
                rank = np.empty_like(order)
                rank[order] = np.arange(len(order))
                yield Minibatch(batch, keys[order], rank[index], offset_behind, prepared)

    def _next(
        self, taken: Future[Minibatch | None], offset: Mapping[str, Any], stop: threading.Event
    ) -> Reading | None:
        """Wait for a minibatch and begin its read; None at the end.

        A stream may be idle for long: empty steps let the other workers continue. Rows of files come soon, and which
        minibatches have the same clock must not depend on the time.
        """
        begin = time.perf_counter()
        while True:
            try:
                minibatch = taken.result(_IDLE_SECONDS)
                break
            except NotYet:
                if stop.is_set():
                    return None
                if isinstance(self._source, Stream):
                    self._send([], {}, offset)
        self.counts.reading += time.perf_counter() - begin
        return None if minibatch is None else (minibatch, self._begin(minibatch, self._clock))

    def _look_ahead(self, taken: Future[Minibatch | None]) -> Reading | None:
        """Begin the read of the minibatch behind the current one, if it is there."""
        if not taken.done() or (minibatch := taken.result()) is None:
            return None
        return minibatch, self._begin(minibatch, self._clock + 1)

    def _begin(self, minibatch: Minibatch, clock: int) -> Request:
        prepared = minibatch.prepared
        return self._view.request(minibatch.keys, clock, None if prepared is None else prepared.wanted)

    def _read(self, keys: Keys, clock: int, wanted: CountsWanted | None) -> Future[RemoteRead]:
        with_state, codec = self.options.staleness > 0, self.options.pull
        return self._pool.submit(self._servers.read, keys, clock, with_state=with_state, codec=codec, wanted=wanted)

    def _wait(self, minibatch: Minibatch, request: Request) -> tuple[Batch, Floats, dict[str, Floats]]:
        """Wait for the weights of a minibatch, and for its statistics."""
        begin = time.perf_counter()
        weights, dense = self._view.take(request)
        self.counts.waiting += time.perf_counter() - begin
        batch = minibatch.batch
        if self._enricher is not None and minibatch.prepared is not None:
            batch = self._enricher.enrich(batch, minibatch.prepared, request.answer.result())
        return batch, weights, dense

    def _learn(self, minibatch: Minibatch, batch: Batch, weights: Floats, dense: dict[str, Floats]) -> None:
        """Learn a minibatch; `batch` is its rows with their statistics."""
        counts = self.counts
        scores, gradients, dense = self._model.gradients(batch, weights, minibatch.index, dense)
        self._on_scores(scores, minibatch.batch, minibatch.offset)
        chunk = None if minibatch.prepared is None else minibatch.prepared.chunk
        self._send(self._pusher.choose(minibatch.keys, gradients), dense, minibatch.offset, chunk)
        self._learned, self._weight = learned_before(minibatch.offset), weight_before(minibatch.offset)
        counts.rows += minibatch.batch.rows
        if isinstance(self._source, Thinned):
            counts.negatives_kept, counts.negatives_read = self._source.thinning.counts()
        counts.hits, counts.misses, counts.read_bytes = self._view.hits, self._view.misses, self._view.nbytes

    def _send(
        self,
        chunks: Sequence[GradientChunk],
        dense: dict[str, Floats],
        offset: Mapping[str, Any],
        count_chunk: CountChunk | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Send a step, once the one before has arrived, and advance to the next clock."""
        options = self.options
        seen = self._learned * options.workers
        step = WorkerStep(
            self.index,
            self._clock,
            rows_seen=round(self._weight * options.workers),
            stamp=seen // CLOCK_ROWS if options.expire_rows else 0,
            last=last,
            offset=offset,
            **self._removal(seen),
        )
        own = _joined(chunks, self._model.parameters.layout.values)
        self._view.note(OwnStep(self._number, *own, dense, step.rows_seen))
        self._acknowledge()
        self._sent = self._pool.submit(
            self._servers.step, self._number, step, chunks, dense, pack=options.push.pack_keys, count_chunk=count_chunk
        )
        self._number, self._clock = self._number + 1, self._clock + 1
        self.counts.residual_rows = self._pusher.residual_rows

    def _removal(self, seen: int) -> dict[str, Any]:
        """What the first worker has the servers remove from time to time."""
        options = self.options
        if self.index or seen < self._swept + options.sweep_rows:
            return {}
        self._swept = seen
        oldest = max(0, seen - options.expire_rows) // CLOCK_ROWS if options.expire_rows else 0
        return {"oldest": oldest, "drop_zeros": options.drop_zeros}

    def _acknowledge(self) -> None:
        """Wait for the last step that was sent."""
        if self._sent is not None:
            self.counts.step_bytes += self._sent.result()
            self.counts.steps += 1
            self._sent = None


def _joined(chunks: Sequence[GradientChunk], values: int) -> tuple[Keys, Floats]:
    """Return the keys of all chunks in ascending order, and their gradients as the servers apply them."""
    keys = np.concatenate([np.zeros(0, np.uint64), *(chunk.keys for chunk in chunks)])
    gradients = np.concatenate([np.zeros((0, values), np.float32), *(chunk.gradients() for chunk in chunks)])
    order = np.argsort(keys)
    return keys[order], gradients[order]
