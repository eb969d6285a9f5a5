"""What all trainers write down: windows, the time, and the end of a training."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bitlane.errors import DataError

from .checkpoint import TrainingProgress
from .run_folder import RunFolder
from .windows import Scores, Window, describe, fields

LOG = logging.getLogger("bitlane.sparse")

Reason = Literal["finished", "stopped", "interrupted"]
OnWindow = Callable[[Window], bool | None]


@dataclass(frozen=True)
class SparseTrainingResult:
    """How a training ended.

    Attributes
    ----------
    reason : {"finished", "stopped", "interrupted"}
        "stopped" by `on_window`, "interrupted" by Ctrl-C or SIGTERM.
    rows_done : int
        Rows of all epochs, those before a resumption included.
    seconds : float
        Time of the training, without checkpoints and callbacks, and that before a resumption included.
    waiting : float
        Share of the time in which this training waited for the reader, 0 to 1.
    windows : tuple of Window
        Those of this training.
    """

    reason: Reason
    rows_done: int
    seconds: float
    waiting: float
    windows: tuple[Window, ...]


class Bookkeeper:
    """Windows, time and end of one training.

    Parameters
    ----------
    run : RunFolder or None
        Folder of the log and the checkpoints.
    on_window : sequence of callables
        Each is called with every `Window`, and stops the training by returning True.
    checkpoint_rows : int
        Rows from one checkpoint to the next; 0 for one at the end only.

    Attributes
    ----------
    progress : TrainingProgress
        Of the run folder, or a new one. The trainer counts rows and epochs in it.
    on_window : list of callables
    saved_rows : int
        Rows that the last checkpoint has.
    """

    def __init__(self, run: RunFolder | None, on_window: Sequence[OnWindow], checkpoint_rows: int):
        self.progress = run.progress if run is not None else TrainingProgress()
        self.on_window = list(on_window)
        self.saved_rows = self.progress.rows_done
        self._run, self._checkpoint_rows = run, checkpoint_rows
        self._windows: list[Window] = []
        self._mark = 0.0

    def check_epochs(self, epochs: int) -> None:
        """Raise DataError if the training has done so many epochs already."""
        if self.progress.epoch >= epochs:
            done = self.progress.epoch
            raise DataError(
                f"epochs={epochs}: the training has already done {done}; give the total, with those: {done + 1} or more"
            )

    # --- time
    def start_clock(self) -> None:
        """Count the time from now on."""
        self._mark = time.perf_counter()

    def tick(self) -> float:
        """Add the time since the last call to the training's, and return it, in seconds."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self.progress.seconds += elapsed
        return elapsed

    @contextlib.contextmanager
    def stopped_clock(self) -> Iterator[None]:
        """A section whose time does not count."""
        start = time.perf_counter()
        yield
        self._mark += time.perf_counter() - start

    # --- events
    def record_window(
        self, epoch: int, scores: Scores, *, seconds: float, waited: float, table_size: tuple[int, int, int]
    ) -> Window:
        """Log a window of progressive validation and return it.

        Parameters
        ----------
        epoch : int
        scores : Scores
            Of the window's rows.
        seconds : float
            Time of the window.
        waited : float
            Of it, spent on waiting for the reader.
        table_size : (int, int, int)
            Keys, bytes of memory and bytes of data; see `learner.table_size`.
        """
        seconds, (keys, memory, data) = max(seconds, 1e-9), table_size
        window = Window(
            epoch=epoch,
            rows_done=self.progress.rows_done,
            quality=scores.quality(),
            seconds=self.progress.seconds,
            rows_per_second=scores.rows / seconds,
            waiting=min(1.0, max(0.0, waited / seconds)),
            table_rows=keys,
            table_bytes=memory,
            memory_over_data=memory / data if data else None,
        )
        self._windows.append(window)
        LOG.info("%s", describe(window))
        if self._run is not None:
            self._run.log.append("window", fields(window))
        return window

    def asks_to_stop(self, window: Window) -> bool:
        """Call all callbacks with a window; return whether one of them stops the training."""
        return any([callback(window) for callback in self.on_window])

    def is_checkpoint_due(self) -> bool:
        """Return whether enough rows were learned since the last checkpoint."""
        return 0 < self._checkpoint_rows <= self.progress.rows_done - self.saved_rows

    def end(self, reason: Reason, *, waited: float, worked: float) -> SparseTrainingResult:
        """Log the end behind the last checkpoint, and return the result.

        Parameters
        ----------
        reason : {"finished", "stopped", "interrupted"}
        waited, worked : float
            Seconds of all workers of this training: those spent on waiting for the reader, and all.
        """
        progress = self.progress
        waiting = min(1.0, waited / max(worked, 1e-9))
        result = SparseTrainingResult(reason, progress.rows_done, progress.seconds, waiting, tuple(self._windows))
        if self._run is not None:
            ending = {"reason": reason, "rows_done": result.rows_done, "seconds": result.seconds}
            self._run.log.append("end", ending)
        return result
