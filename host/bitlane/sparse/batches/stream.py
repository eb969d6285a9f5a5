"""A folder of Arrow or Parquet segments that is followed for ever."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.pipeline import ahead, in_order
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.sparse.batches.thinning import Thinning
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from bitlane.sparse.batches.files import DataFile
    from bitlane.sparse.batches.pieces import Piece

SEGMENTS = ("parquet", "arrow")
_PAUSE = 0.05  # seconds; so soon a waiting reader sees that it shall end
_BATCHES_AHEAD = 4
# the end of rows of a segment; the rows, None behind the last ones; if some are left out, the end behind each
Chunk = tuple["StreamOffset", Batch | None, NDArray[np.int64] | None]


@dataclass(frozen=True)
class StreamOffset:
    """How far a stream has been read.

    Attributes
    ----------
    file : str, default=""
        Name of a segment, relative to the folder. All segments whose names come before it have been read.
    rows : int, default=0
        Rows of it that have been read.
    """

    file: str = ""
    rows: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the offset as JSON takes it."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StreamOffset:
        """Return the offset whose `as_json` gave `data`."""
        return StreamOffset(str(data["file"]), int(data["rows"]))


class FolderStream:
    """Rows of the segments of a folder, in the order of the segments' names, for ever.

    A new segment needs a name that comes behind all others. Names that begin with ``.`` or ``_`` are left alone, so a
    writer may use them and rename the file. An incomplete segment is waited for, and those behind it too.

    Parameters
    ----------
    folder : str or Path
        A folder, or a URI such as ``s3://bucket/clicks``.
    options : ReadOptions, optional
        Streams are not shuffled.
    offset : StreamOffset, optional
        Where to go on; by default at the oldest segment.
    poll_seconds : float, default=1.0
        Time between two looks at the folder.
    incomplete_seconds : float, default=60.0
        A segment that is incomplete, and has not grown for so long, is an error.
    stop : threading.Event, optional
        Setting it ends the stream.

    Attributes
    ----------
    offset : StreamOffset
        The end of the last batch that the caller got. A checkpoint that is written once this batch has been learned
        holds it; a stream with this offset goes on with the row behind it.
    schema : Schema, ListSchema or None
        None before the first segment, unless `options` has one.
    wait_seconds : float
        Time that callers waited for a batch.
    rows : int
        Rows that callers got.
    thinning : Thinning
        Counts the rows of label 0 that were left out. Rows are numbered within their segment.
    """

    def __init__(
        self,
        folder: str | Path,
        options: ReadOptions | None = None,
        *,
        offset: StreamOffset | None = None,
        poll_seconds: float = 1.0,
        incomplete_seconds: float = 60.0,
        stop: threading.Event | None = None,
    ):
        require_extra("numba", "Reading sparse rows", "'bitlane[sparse]'")
        require_extra("pyarrow", "Reading sparse rows", "'bitlane[sparse]'")
        from bitlane.sparse.batches.files import locate_folder

        self.options = ReadOptions() if options is None else options
        if self.options.shuffle_rows or self.options.shuffle_files:
            raise DataError("a stream is not shuffled: set shuffle_rows=0 and shuffle_files=False")
        if poll_seconds <= 0:
            raise DataError(f"poll_seconds={poll_seconds} must be above 0")
        self.folder = str(folder)
        self.offset = StreamOffset() if offset is None else offset
        self.schema = self.options.schema
        self.thinning = Thinning(self.options.negatives, self.options.seed)
        self.wait_seconds = 0.0
        self.rows = 0
        self._system, self._root = locate_folder(self.folder, self.options.filesystem)
        self._poll_seconds, self._incomplete_seconds = poll_seconds, incomplete_seconds
        self._stop = threading.Event() if stop is None else stop

    def stop(self) -> None:
        """End the stream: `batches` returns soon."""
        self._stop.set()

    def batches(self, epoch: int = 0, start: int = 0) -> Generator[Batch, None, None]:
        """Yield batches from `offset` on until the stream is stopped.

        A batch ends with its segment, so that rows never wait for the next one.

        Parameters
        ----------
        epoch : int, default=0
            A stream has one epoch.
        start : int, default=0
            Rows behind `offset` that are skipped.

        Raises
        ------
        DataError
            A segment cannot be used, or stays incomplete.
        """
        del epoch
        closing = threading.Event()
        chunks = in_order(self._tasks(closing, start), self.options.threads, closing)
        results = ahead(_cut_segments(chunks, self.options.batch_rows), _BATCHES_AHEAD)
        try:
            while not self._stop.is_set():
                begin = perf_counter()
                item = next(results, None)
                self.wait_seconds += perf_counter() - begin
                if item is None:
                    return
                self.offset, batch = item
                self.rows += batch.rows
                yield batch
        finally:
            closing.set()
            results.close()

    def _tasks(self, closing: threading.Event, start: int) -> Generator[Callable[[], Chunk], None, None]:
        from bitlane.sparse.batches.pieces import Skip, known_rows, pieces_of

        offset, beyond = self.offset, start
        for file, name in self._segments(closing, offset.file):
            total = known_rows(file) or 0
            done = offset.rows if name == offset.file else 0
            skipped = min(beyond, max(total - done, 0))
            beyond -= skipped
            row = done + skipped
            schema = self._schema_of(file)
            for piece in pieces_of(file, schema, replace(self.options, schema=schema), Skip(row)):
                yield self._named(piece, name, row)
                row += piece.rows - piece.drop
            yield self._named(None, name, row)

    def _schema_of(self, file: DataFile) -> Schema | ListSchema:
        from bitlane.sparse.batches.columns import default_schema, types_of
        from bitlane.sparse.batches.pieces import columns_of

        if isinstance(self.schema, Schema) and self.schema.lacks_types:
            self.schema = self.schema.with_types(types_of(columns_of(file, self.options)))
        if self.schema is None:
            options, columns = self.options, columns_of(file, self.options)
            names = ("label", "time", "weight", "labelled", "ignore")
            given = {name: getattr(options, name) for name in names}
            self.schema = default_schema(columns, file.name, **given)
        return self.schema

    def _named(self, piece: Piece | None, name: str, row: int) -> Callable[[], Chunk]:
        def decode() -> Chunk:
            if piece is None:
                return StreamOffset(name, row), None, None
            batch = piece()
            end = StreamOffset(name, row + batch.rows)
            if not self.options.thins:
                return end, batch, None
            rest, index = self.thinning(batch, row, zlib.crc32(name.encode()))
            return end, rest, row + index + 1

        return decode

    def _segments(self, closing: threading.Event, first: str) -> Generator[tuple[DataFile, str], None, None]:
        """Yield complete segments and their names from `first` on; wait for new ones."""
        from bitlane.sparse.batches.files import reading, segments_below
        from bitlane.sparse.batches.pieces import why_incomplete

        last, sizes = "", dict[str, tuple[int, float]]()
        while not (closing.is_set() or self._stop.is_set()):
            with reading(self.folder):
                segments = segments_below(self._system, self._root, SEGMENTS, self.options.format)
            for name, file in segments:
                if name < first or name <= last or not self._is_mine(name):
                    continue
                if reason := why_incomplete(file):
                    self._check_growth(file, sizes, reason)
                    break
                last = name
                yield file, name
                if closing.is_set() or self._stop.is_set():
                    return
            self._pause(closing)

    def _is_mine(self, name: str) -> bool:
        """Whether a segment belongs to this share of the stream: segments are dealt out by their names."""
        index, count = self.options.share
        return zlib.crc32(name.encode()) % count == index

    def _check_growth(self, file: DataFile, sizes: dict[str, tuple[int, float]], reason: str) -> None:
        size, since = sizes.get(file.path, (-1, 0.0))
        if size != file.size:
            sizes[file.path] = (file.size, monotonic())
        elif monotonic() - since > self._incomplete_seconds:
            raise DataError(f"{reason}; it has not grown for {self._incomplete_seconds:g} s: repair or remove it")

    def _pause(self, closing: threading.Event) -> None:
        end = monotonic() + self._poll_seconds
        while not closing.is_set() and (left := end - monotonic()) > 0:
            if self._stop.wait(min(_PAUSE, left)):
                return


def _cut_segments(chunks: Generator[Chunk, None, None], rows: int) -> Generator[tuple[StreamOffset, Batch], None, None]:
    """Yield batches of `rows` rows, cut where the complete segment would be cut, with the offset behind each.

    Where rows are left out, `rows` others follow the last cut.
    """
    held: list[Batch] = []
    count = 0  # rows before the next one, or since the last cut
    try:
        for end, chunk, ends in chunks:
            if chunk is not None:
                at, begin = 0, end.rows - chunk.rows
                count = begin if ends is None else sum(batch.rows for batch in held)
                while at < chunk.rows:
                    taken = chunk.slice(at, at + rows - count % rows)
                    held.append(taken)
                    at, count = at + taken.rows, count + taken.rows
                    if count % rows == 0:
                        last = begin + at if ends is None else int(ends[at - 1])
                        yield StreamOffset(end.file, last), Batch.concatenate(held)
                        held = []
            elif held:
                yield end, Batch.concatenate(held)
                held = []
    finally:
        chunks.close()
