"""Scores of several workers as windows of progressive validation, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bitlane.sparse.engines.actors import Floats, Learned
from bitlane.sparse.parameters.row_sample import RowSample
from bitlane.sparse.training.windows import Loss, Scores


class ScoreMerger:
    """Puts the scores of workers together.

    A recreated worker learns the minibatches again whose steps its servers did not get; their scores count once. The
    windows lack scores that were not collected from a worker before it died; the model has these rows.

    Parameters
    ----------
    loss : {"log_loss", "squared_error"}
    window_rows : int
        Rows at which a window ends. It has a few more, as many as come at once, and does not reach over epochs.
    standings : sequence of (int, int)
        Of each worker: its epoch, and the rows that it has learned.
    sample : RowSample, optional
        Gets the rows of the first epoch.

    Attributes
    ----------
    epoch : int
        The first epoch that some worker has not left behind.
    """

    def __init__(
        self, loss: Loss, window_rows: int, standings: Sequence[tuple[int, int]], sample: RowSample | None = None
    ):
        self._loss, self._window_rows, self._sample = loss, window_rows, sample
        self._epochs, self._rows = [epoch for epoch, _ in standings], [rows for _, rows in standings]
        self._ended = [False] * len(standings)
        self._scores: dict[int, Scores] = {}

    @property
    def rows(self) -> int:
        """Rows that all workers have learned, those of earlier runs included."""
        return sum(self._rows)

    @property
    def epoch(self) -> int:
        running = [epoch for epoch, ended in zip(self._epochs, self._ended, strict=True) if not ended]
        return min(running, default=self.newest)

    @property
    def newest(self) -> int:
        """The last epoch that some worker has begun."""
        return max(self._epochs)

    def rows_of(self, worker: int) -> int:
        """Return the rows that a worker has learned."""
        return self._rows[worker]

    def restore(self, scores: Floats, labels: Floats, weights: Floats | None = None) -> None:
        """Begin with the scores of a window that an earlier run has begun."""
        if len(scores):
            self._of_epoch(self.epoch).add(scores, labels, weights)

    def add(self, worker: int, learned: Sequence[Learned]) -> None:
        """Add what a worker has learned; DivergedError if a score is not finite."""
        for each in learned:
            new = min(len(each.scores), each.rows_done - self._rows[worker])
            if new > 0:
                weights = None if each.weights is None else each.weights[-new:]
                self._of_epoch(each.epoch).add(each.scores[-new:], each.labels[-new:], weights)
                self._rows[worker], self._epochs[worker] = each.rows_done, each.epoch
                if self._sample is not None and each.seen is not None:
                    self._sample.take(each.seen)

    def end(self, worker: int) -> None:
        """Take account of a worker that has no more rows."""
        self._ended[worker] = True

    def windows(self, before: int) -> Iterator[tuple[int, Scores]]:
        """Yield the epoch and the scores of the windows that have ended: full ones, and all of epochs before one."""
        for epoch in sorted(self._scores):
            if self._scores[epoch].rows >= self._window_rows or epoch < before:
                yield epoch, self._scores.pop(epoch)

    def begun(self) -> tuple[Floats, Floats, Floats | None]:
        """Return scores, labels and weights of the window that has begun in the newest epoch."""
        scores = self._scores.get(self.newest)
        return (Scores(self._loss) if scores is None else scores).arrays()

    def _of_epoch(self, epoch: int) -> Scores:
        return self._scores.setdefault(epoch, Scores(self._loss))
