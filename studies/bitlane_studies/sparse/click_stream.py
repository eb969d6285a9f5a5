"""A click log that comes in segments: rows are first shown to a service, then given to a training with their clicks."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.formats import write_parquet


class ClickStream(threading.Thread):
    """Writes a segment every so many seconds until `close` is called.

    A segment lies beside the stream as long as its rows are shown, and moves into the stream when their clicks are
    known: a model that follows the stream has never learned a row that is being shown.

    Parameters
    ----------
    log : ClickLog
    folder : Path
        Of the stream; it exists.
    segment_rows : int
    seconds : float
        From one segment to the next.

    Attributes
    ----------
    number : int
        Of the segment that is being shown.
    """

    def __init__(self, log: ClickLog, folder: Path, segment_rows: int, seconds: float):
        super().__init__(name="click-stream", daemon=True)
        self._log, self._folder, self._rows, self._seconds = log, folder, segment_rows, seconds
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._write(0)

    def backlog(self, segments: int) -> None:
        """Move on by some segments at once, before the start."""
        for _ in range(segments):
            self._advance()

    @property
    def shown(self) -> tuple[int, Batch]:
        """The number of the segment that is being shown, and its rows as `batch_of` returns them."""
        with self._lock:
            return self.number, self._batch

    def path(self, number: int) -> Path:
        """Return the file of a segment."""
        name = f"{number:08}.parquet"
        inside = self._folder / name
        return inside if inside.exists() else self._folder.with_name(f"shown-{name}")

    def batch_of(self, number: int) -> Batch:
        """Return the rows of a segment, with the keys that a training finds in its file."""
        source = open_source(str(self.path(number)), time="time")
        return Batch.concatenate(list(source.batches(0)))

    def run(self) -> None:
        """Write."""
        due = time.monotonic()
        while not self._closing.is_set():
            due += self._seconds
            self._closing.wait(max(0.0, due - time.monotonic()))
            self._advance()

    def close(self) -> None:
        """Stop after the segment that is being written."""
        self._closing.set()
        self.join()

    def _advance(self) -> None:
        before = self.path(self.number)
        self._write(self.number + 1)
        os.rename(before, self._folder / before.name.removeprefix("shown-"))

    def _write(self, number: int) -> None:
        rows = self._log.batch(number * self._rows, self._rows)
        write_parquet(rows, self._log.settings.field_names, self.path(number))
        batch = self.batch_of(number)
        with self._lock:
            self.number, self._batch = number, batch
