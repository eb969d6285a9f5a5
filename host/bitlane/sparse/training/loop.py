"""The training loop: epochs over a source, progressive validation, checkpoints."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.cuts import cut
from bitlane.sparse.batches.pipeline import ahead
from bitlane.sparse.batches.source import Source, Stream
from bitlane.sparse.periods import CHECKPOINT_ROWS, CLOCK_ROWS, FIRST_ROWS, WINDOW_ROWS, piece_rows
from bitlane.support.compile_notice import CompileNotice
from bitlane.support.user_warnings import warn_user

from .bookkeeping import LOG, Bookkeeper, OnWindow, Reason, SparseTrainingResult
from .learner import Learner, table_size
from .run_folder import RunFolder
from .stopping import Stopping
from .windows import Scores

_PIECES_AHEAD = 2

NOTICE = CompileNotice(
    LOG, "note: compiling loops with numba: some seconds, once for each machine; later runs use the cache"
)

Learned = tuple[NDArray[np.float32], Batch, bool]  # scores, their rows; whether no other piece is being learned
Running = tuple[Batch, "Future[NDArray[np.float32]]"]


@dataclass(frozen=True)
class SparseTrainingOptions:
    """How a training runs.

    Parameters
    ----------
    epochs : int, default=1
        Passes over the data, those before a resumption included.
    threads : int, default=1
        Threads that learn. One is deterministic; more update one table without waiting for each other (Hogwild, Niu
        et al. 2011).
    window_rows : int, default=50_000
        Rows of a window of progressive validation. A window does not reach over the end of an epoch.
    checkpoint_rows : int, default=5_000_000
        Rows from one checkpoint to the next; 0 for one at the end only.
    expire_rows : int, default=0
        A key that no row has had for so many rows, rounded to thousands, is removed at the end of a window; 0 keeps
        all. The model's spec needs `track_age`.
    drop_zeros : bool, default=False
        Remove the keys whose weights are all 0 at the end of each window: those that an L1 penalty has left at 0.
    """

    epochs: int = 1
    threads: int = 1
    window_rows: int = WINDOW_ROWS
    checkpoint_rows: int = CHECKPOINT_ROWS
    expire_rows: int = 0
    drop_zeros: bool = False

    def __post_init__(self) -> None:
        limits = {"epochs": 1, "threads": 1, "window_rows": 1, "checkpoint_rows": 0, "expire_rows": 0}
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise DataError(f"{name}={getattr(self, name)}: must be at least {least}")


class Trainer:
    """Trains a model on a source.

    Parameters
    ----------
    model : SparseModel or EnrichedModel
        The statistics of the latter begin again in each epoch.
    source : Source
        Yields the rows of an epoch in an order that depends on the epoch only. Or a stream, which has an `offset`: its
        batches are not cut, and a resumed training needs a stream that begins with the offset in `progress.offset`.
    options : SparseTrainingOptions
    run : RunFolder, optional
        Folder of the log and the checkpoints. If it is resumed, `model` must be the one of its last checkpoint.
    on_window : callables
        Each is called with every `Window`, and stops the training by returning True.
    on_rows : callable, optional
        Called with the number of rows after each piece of a batch.
    learning : context manager, optional
        A section in which each piece is learned, by several threads at once. A caller that must not see a
        half-learned minibatch keeps the threads out of it.
    """

    def __init__(
        self,
        model: Learner,
        source: Source,
        options: SparseTrainingOptions | None = None,
        *,
        run: RunFolder | None = None,
        on_window: Sequence[OnWindow] = (),
        on_rows: Callable[[int], object] | None = None,
        learning: AbstractContextManager[None] | None = None,
    ):
        self.model, self.source, self.run_folder = model, source, run
        self.options = options or SparseTrainingOptions()
        self._book = Bookkeeper(run, on_window, self.options.checkpoint_rows)
        self.progress = self._book.progress
        self._on_rows = on_rows
        self._learning = learning or nullcontext()
        self._sizes = piece_rows(int(model.spec.batch_rows), self.options.window_rows)
        self._window_rows = self._sizes[1]
        self._stream = source if isinstance(source, Stream) else None
        self._scores = Scores(model.spec.loss)
        self._scores.add(self.progress.scores, self.progress.labels, self.progress.weights)
        self._waited = self._worked = 0.0
        self._pause = self._sweep_due = False
        self._given = self.progress.rows_done  # rows that were given to threads

    @property
    def on_window(self) -> list[OnWindow]:
        """What is called with each window; more may be added before `run`."""
        return self._book.on_window

    def run(self) -> SparseTrainingResult:
        """Train to the last epoch, or until something stops the training, and write the last checkpoint.

        Raises
        ------
        DataError
            The data cannot be used, or has no rows.
        DivergedError
            Scores are no longer finite: the learning rate is too large.
        BitlaneError
            A checkpoint or the log cannot be written.
        """
        self._book.check_epochs(self.options.epochs)
        if self.options.threads > 1:
            warn_user(
                f"{self.options.threads} threads update one table without waiting for each other (Hogwild): "
                "the result differs from run to run; use 1 thread for a repeatable one"
            )
        if self.run_folder is not None:
            self.run_folder.begin()
        reason: Reason | None = None
        self._book.start_clock()
        # A thread cuts the pieces, those of the next epoch too. A stream, whose offset moves as it yields, has its own.
        feed = self._feed() if self._stream else ahead(self._feed(), _PIECES_AHEAD)
        with Stopping() as stopping, NOTICE.watch(), closing(feed):
            while reason is None and self.progress.epoch < self.options.epochs:
                reason = self._epoch(feed, stopping)
        return self._end(reason or "finished")

    def _feed(self) -> Generator[Batch | None, None, None]:
        """Yield the pieces of the epochs that are left, and None at the end of each."""
        start = 0 if self._stream else self.progress.epoch_rows
        for epoch in range(self.progress.epoch, self.options.epochs):
            with closing(self.source.batches(epoch, start)) as batches:
                yield from batches if self._stream else cut(batches, self._sizes, start)
            yield None
            start = 0

    def _epoch(self, feed: Iterator[Batch | None], stopping: Stopping) -> Reason | None:
        """Train on the rest of the current epoch. Return why the training must stop, or None at the epoch's end."""
        progress, reason = self.progress, None
        if progress.epoch_rows == 0 and hasattr(self.model, "begin_epoch"):
            self.model.begin_epoch()
        self._pause = False
        for scores, piece, quiet in self._learn(feed, stopping):
            reason = self._count(scores, piece) or reason
            if stopping.asked:
                reason = "interrupted"
            due = self._book.is_checkpoint_due()
            self._pause = due or reason is not None or self._sweep_due
            if quiet and self._sweep_due:
                self._sweep()
            if quiet and reason:
                return reason
            if quiet and due:
                self._checkpoint()
        if stopping.asked:
            return "interrupted"
        if progress.rows_done == 0:
            raise DataError("the data has no rows")
        if self._scores.rows:
            reason = self._end_window()
            self._sweep()
        progress.epoch, progress.epoch_rows = progress.epoch + 1, 0
        return reason

    def _learn(self, feed: Iterator[Batch | None], stopping: Stopping) -> Iterator[Learned]:
        """Learn an epoch's pieces, by threads if there are several. Yield in the order of the pieces."""
        threads = self.options.threads
        running: deque[Running] = deque()
        with ThreadPoolExecutor(threads) as pool:
            while (piece := self._next(feed, stopping, running)) is not None:
                if self._given == 0:
                    self.model.begin(piece.slice(0, FIRST_ROWS))
                self._tick_table(piece.rows)
                if threads == 1:
                    yield self._learn_piece(piece), piece, True
                    continue
                running.append((piece, pool.submit(self._learn_piece, piece)))
                while len(running) > threads + 1 or (self._pause and running):
                    yield _first(running)
            while running:
                yield _first(running)

    def _learn_piece(self, piece: Batch) -> NDArray[np.float32]:
        with self._learning:
            scores = self.model.learn(piece)
        if self.progress.epoch == 0 and self.progress.sample is not None:
            self.progress.sample.add(piece)
        return scores

    def _tick_table(self, rows: int) -> None:
        """Set the clock that stamps the keys of the next piece."""
        if self.options.expire_rows:
            self.model.parameters.table.tick(self._given // CLOCK_ROWS)
        self._given += rows

    def _sweep(self) -> None:
        """Remove the keys that have expired, and those without weight. No piece is being learned."""
        self._sweep_due = False
        options = self.options
        if not (options.expire_rows or options.drop_zeros):
            return
        oldest = max(0, self.progress.rows_done - options.expire_rows) // CLOCK_ROWS
        parameters = self.model.parameters
        removed = parameters.table.sweep(
            parameters.has_weight if options.drop_zeros else None, oldest if options.expire_rows else None
        )
        LOG.info("%s keys were removed", f"{removed:,}")

    def _next(self, feed: Iterator[Batch | None], stopping: Stopping, running: Sequence[Running]) -> Batch | None:
        """Return the next piece; None at the epoch's end, or when a signal came while the training waited for it."""
        idle = self.options.threads - sum(not future.done() for _, future in running)
        start = time.perf_counter()
        try:
            with stopping.interruptible():
                piece = next(feed, None)
            if piece is not None and self._stream:
                self.progress.offset = self._stream.offset.as_json()
            return piece
        except KeyboardInterrupt:
            return None
        finally:
            share = max(0, idle) / self.options.threads
            self.progress.window_waiting += share * (time.perf_counter() - start)

    def _count(self, scores: NDArray[np.float32], piece: Batch) -> Reason | None:
        """Take account of rows that were learned. Return why the training must stop, if it must."""
        progress, rows = self.progress, len(scores)
        self._scores.add(scores, piece.labels, piece.weights)
        progress.epoch_rows, progress.rows_done = progress.epoch_rows + rows, progress.rows_done + rows
        if self._on_rows is not None:
            self._on_rows(rows)
        return self._end_window() if self._scores.rows >= self._window_rows else None

    def _tick(self) -> None:
        """Add the time since the last call to the training's and the window's."""
        self.progress.window_seconds += self._book.tick()

    def _end_window(self) -> Reason | None:
        self._tick()
        progress = self.progress
        window = self._book.record_window(
            progress.epoch,
            self._scores,
            seconds=progress.window_seconds,
            waited=progress.window_waiting,
            table_size=table_size(self.model),
        )
        self._waited += progress.window_waiting
        self._worked += progress.window_seconds
        progress.window_seconds = progress.window_waiting = 0.0
        self._scores.clear()
        self._sweep_due = True
        with self._book.stopped_clock():
            return "stopped" if self._book.asks_to_stop(window) else None

    def _checkpoint(self) -> None:
        """Write a checkpoint. No piece is being learned."""
        self._tick()
        with self._book.stopped_clock():
            if self.run_folder is not None:
                self.progress.scores, self.progress.labels, self.progress.weights = self._scores.arrays()
                path = self.run_folder.save(self.progress, self.model.save)
                LOG.info("checkpoint %s after %d rows", path, self.progress.rows_done)
            self._book.saved_rows = self.progress.rows_done

    def _end(self, reason: Reason) -> SparseTrainingResult:
        self._checkpoint()
        progress = self.progress
        return self._book.end(
            reason, waited=self._waited + progress.window_waiting, worked=self._worked + progress.window_seconds
        )


def _first(running: deque[Running]) -> Learned:
    """Wait for the first piece of those that are being learned."""
    piece, future = running.popleft()
    return future.result(), piece, not running
