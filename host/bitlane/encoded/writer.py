"""Writing of encoded tables, block by block: new ones, interrupted ones, and rows behind those of a file."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.column_bounds import column_bounds
from bitlane.quantization.row_table import dense_pieces
from bitlane.quantization.scaling import Floats
from bitlane.support.atomic import sync_entries
from bitlane.support.processors import processors

from .block_encoder import encode_block
from .frame import read_frame
from .layout import (
    ALIGN,
    ROOT_BYTES,
    BlockEntry,
    ColumnStatistics,
    Root,
    TableDescription,
    pack_index,
    read_root,
    unpack_index,
)

PART = ".part"  # behind the name of a file that is being written


class RowsToWrite(NamedTuple):
    """Rows to write.

    Attributes
    ----------
    X : array or RowTable [rows, n]
        Integers or floats.
    y : float64 array [rows, targets]
    weights : float64 array [rows], or None
    groups : int64 array [rows], or None
    first : int, default=0
        Number of the first row where they come from, for messages.
    """

    X: Any
    y: Floats
    weights: Floats | None = None
    groups: NDArray[np.int64] | None = None
    first: int = 0


class TableWriter:
    """A file with an encoded table that grows; `new_table` and `appended_table` make it.

    Attributes
    ----------
    description : TableDescription
    rows : int
        Rows that the file holds: where the writing goes on.
    statistics : ColumnStatistics or None
        Of these rows.
    """

    def __init__(self, file: Any, name: str, description: TableDescription):
        self.description, self.rows = description, 0
        self.statistics: ColumnStatistics | None = None
        self._file, self._name, self._blocks = file, name, list[BlockEntry]()
        self._end = ROOT_BYTES + len(description.packed())

    def write(self, blocks: Iterable[RowsToWrite], threads: int | None = None) -> Iterator[int]:
        """Encode blocks and write them in order; yield the rows of the file after each.

        Parameters
        ----------
        blocks : iterable of RowsToWrite
            Of `description.block_rows` rows each, but for the last.
        threads : int, optional
            As many as the machine has by default. The bytes do not depend on it.

        Raises
        ------
        DataError
            A value is not finite.
        """
        workers = threads or processors()
        waiting: deque[Future[tuple[list[bytes], int, ColumnStatistics]]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for block in blocks:
                    waiting.append(pool.submit(self._encoded, block))
                    if len(waiting) > workers:
                        yield self._written(*waiting.popleft().result())
                while waiting:
                    yield self._written(*waiting.popleft().result())
            finally:
                for each in waiting:
                    each.cancel()

    def finish(self) -> None:
        """Write the index, and the root that points to it."""
        if self.statistics is None:
            raise DataError(f"{self._name} would have no rows: nothing is written")
        index, description = pack_index(self._blocks, self.statistics), self.description.packed()
        self._file.seek(self._end)
        self._file.write(index)
        self._file.truncate()
        self._sync()
        root = Root(len(description), self._end, len(index), self.rows, zlib.crc32(index), zlib.crc32(description), 0)
        self._file.seek(0)
        self._file.write(root.packed())
        self._sync()

    def begin(self, job: int) -> None:
        """Write the root of an unfinished file, and the description."""
        description = self.description.packed()
        self._file.seek(0)
        self._file.truncate()
        self._file.write(Root(len(description), 0, 0, 0, 0, zlib.crc32(description), job).packed() + description)

    def recover(self) -> None:
        """Take over the complete blocks of an unfinished file, up to the first one that is not intact."""
        rows = self.description.block_rows
        size, planes = self.description.block_bytes(rows), self.description.plane_bytes(rows)
        digits = self.description.codes.digits
        self._file.seek(self._end)
        while len(content := self._file.read(size)) == size:
            view = memoryview(content)
            used = digits * planes
            rest = view[used : size - self.description.trailer_bytes]
            parts = [view[digit * planes : (digit + 1) * planes] for digit in range(digits)] + [rest]
            entry = BlockEntry(self._end, rows, tuple(map(zlib.crc32, parts)))
            if entry.trailer() != content[-self.description.trailer_bytes :]:
                break
            self._add(entry, size, self.description.beside(rest, rows).statistics)

    def resume(self, root: Root, index: bytes) -> None:
        """Take over the blocks of a finished file."""
        self._blocks, self.statistics = unpack_index(index, self.description)
        self.rows, self._end = root.rows, root.index_offset + root.index_bytes
        self._end += -self._end % ALIGN

    def _encoded(self, block: RowsToWrite) -> tuple[list[bytes], int, ColumnStatistics]:
        """Return the bytes of a block, its rows and its statistics."""
        X, codes = block.X, self.description.codes
        low, high, total = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf), np.zeros(X.shape[1])
        for piece in dense_pieces(X):
            bounds = column_bounds(piece)
            if bounds.bad:
                raise DataError(not_finite(np.asarray(X), codes.names, block.first))
            low, high, total = np.minimum(low, bounds.low), np.maximum(high, bounds.high), total + bounds.total
        encoded = encode_block(X, codes)
        statistics = ColumnStatistics(low, high, total, encoded.clipped)
        parts = [plane.tobytes() for plane in encoded.planes]
        beside = [each.tobytes() for each in (block.y, block.weights, block.groups) if each is not None]
        rest = b"".join([*beside, *(each.tobytes() for each in statistics)])
        rest += bytes(self.description.rest_bytes(len(X)) - len(rest))
        return [*parts, rest], len(X), statistics

    def _written(self, parts: list[bytes], rows: int, statistics: ColumnStatistics) -> int:
        entry = BlockEntry(self._end, rows, tuple(map(zlib.crc32, parts)))
        self._file.seek(self._end)
        for part in (*parts, entry.trailer()):
            self._file.write(part)
        self._add(entry, self.description.block_bytes(rows), statistics)
        return self.rows

    def _add(self, entry: BlockEntry, size: int, statistics: ColumnStatistics) -> None:
        self._blocks.append(entry)
        self._end, self.rows = self._end + size, self.rows + entry.rows
        self.statistics = statistics if self.statistics is None else self.statistics.merged(statistics)

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def new_table(path: Path, description: TableDescription, job: int = 0) -> Iterator[TableWriter]:
    """Yield the writer of a new file, which appears at the end of the block, complete.

    Until then it is ``PATH.part``. A file of that name which a killed process of the same job left is continued: the
    writer has its rows. An error removes it, and an interrupt does not.

    Parameters
    ----------
    path : Path
    description : TableDescription
    job : int, default=0
        A number of what is encoded and how, 64 bits; with 0 nothing is continued.
    """
    part = part_of(path)
    with open(part, "r+b" if part.exists() else "w+b") as file:
        writer = TableWriter(file, path.name, description)
        if job and unfinished_description(part, job) == description.packed():
            writer.recover()
        else:
            writer.begin(job)
        try:
            yield writer
            writer.finish()
        except Exception:
            part.unlink(missing_ok=True)
            raise
    os.replace(part, path)
    sync_entries(path.absolute().parent)


@contextmanager
def appended_table(path: Path) -> Iterator[TableWriter]:
    """Yield a writer of rows behind those of a file; the file has them when the block ends without an error.

    Raises
    ------
    DataError
        The file is no encoded table, or its description or index is damaged.
    """
    with open(path, "r+b") as file:
        root, description, index = read_frame(file, path.name)
        writer = TableWriter(file, path.name, description)
        writer.resume(root, index)
        try:
            yield writer
            writer.finish()
        except BaseException:
            file.truncate(root.index_offset + root.index_bytes)
            raise


def part_of(path: Path) -> Path:
    """Return where a file is written until it is complete."""
    return path.with_name(path.name + PART)


def unfinished_description(part: Path, job: int) -> bytes | None:
    """Return the description of an unfinished file of this job, or None."""
    try:
        with part.open("rb") as file:
            root = read_root(file.read(ROOT_BYTES), part.name)
            content = file.read(root.described)
    except (OSError, DataError):
        return None
    return content if root.job == job and zlib.crc32(content) == root.described_check else None


def not_finite(X: NDArray[Any], names: tuple[str, ...] | None, first: int) -> str:
    """Return the message about rows [rows, n], from number `first` on, of which a value is not finite."""
    row, column = (int(index[0]) for index in np.nonzero(~np.isfinite(X)))
    shown = column if names is None else repr(names[column])
    return f"column {shown} holds {X[row, column]} in row {first + row + 1}: fill or drop such rows"
