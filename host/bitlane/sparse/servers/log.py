"""A write-ahead log: records in segment files that only grow, and are deleted when a checkpoint covers them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.segment import (
    SEGMENT_HEADER,
    AppendFile,
    Payload,
    append_all,
    first_record_of,
    has_record_after,
    record_header,
    records,
    segment_header,
)
from bitlane.support.atomic import sync_entries

SEGMENT_BYTES = 1 << 26  # a segment ends with the first record behind this size
_NAME = re.compile(r"(\d{12})\.log")


class WriteAheadLog:
    """A write-ahead log in a folder. One thread at a time may use it.

    Make one by `create` or `open`.

    Parameters
    ----------
    folder : Path
    segment : int
        The newest segment, which is open.
    first : int
        The oldest segment.
    next_record : int
    size : int
        Bytes of the newest segment that count; what follows is cut off before the next append.
    open_file : callable
        Opens a file for appending, as `AppendFile`.

    Attributes
    ----------
    segment : int
    dropped : int
        Bytes of an unfinished record at the end, which `open` cut off.
    """

    def __init__(
        self,
        folder: Path,
        segment: int,
        first: int,
        next_record: int,
        size: int,
        open_file: Callable[[Path], AppendFile] = AppendFile,
    ):
        self.folder, self.segment, self.dropped = folder, segment, 0
        self._first, self._next, self._size = first, next_record, size
        self._open_file = open_file
        self._older = 0  # bytes of the older segments
        self._whole = False  # the file may have more than `size` bytes
        self._path = path_of(folder, segment)
        self._file = open_file(self._path)

    @classmethod
    def create(
        cls, folder: Path, segment: int = 1, next_record: int = 1, open_file: Callable[[Path], AppendFile] = AppendFile
    ) -> WriteAheadLog:
        """Begin a log in an existing, empty folder."""
        with _clear_errors(folder):
            _write_header(folder, segment, next_record, open_file)
            return cls(folder, segment, segment, next_record, SEGMENT_HEADER, open_file)

    @classmethod
    def open(
        cls,
        folder: Path,
        first: int,
        replay: Callable[[memoryview], None],
        open_file: Callable[[Path], AppendFile] = AppendFile,
    ) -> WriteAheadLog:
        """Read a log and open it for appending.

        Segments before `first` are deleted. An unfinished or damaged record at the very end is cut off: its update was
        never acknowledged.

        Parameters
        ----------
        folder : Path
        first : int
            The first segment that the checkpoint does not cover.
        replay : callable
            Takes the payload of each record, in order.
        open_file : callable, optional

        Raises
        ------
        DataError
            A segment is missing, or a record before the last one is damaged: the message has file and byte.
        """
        with _clear_errors(folder):
            for number in segments(folder):
                if number < first:
                    path_of(folder, number).unlink()
            numbers = segments(folder)
            if numbers != list(range(first, first + max(1, len(numbers)))):
                raise DataError(f"{folder} is damaged: it has the segments {numbers}; they must continue from {first}")
            return cls._recovered(folder, numbers, replay, open_file)

    @classmethod
    def _recovered(
        cls,
        folder: Path,
        numbers: list[int],
        replay: Callable[[memoryview], None],
        open_file: Callable[[Path], AppendFile],
    ) -> WriteAheadLog:
        number, end, length, older = None, SEGMENT_HEADER, 0, 0
        for segment in numbers:
            path, newest = path_of(folder, segment), segment == numbers[-1]
            data = path.read_bytes()
            begin = first_record_of(data, segment)
            if newest and number is not None and begin is None and len(data) <= SEGMENT_HEADER:
                path.unlink()  # killed while it began a segment
                _write_header(folder, segment, number, open_file)
                data, begin = path.read_bytes(), number
            if begin is None or (number is not None and begin != number):
                raise DataError(f"{path} is damaged at byte 0")
            older += length
            number, end, length = begin, SEGMENT_HEADER, len(data)
            for stop, payload in records(data, begin):
                replay(payload)
                number, end = number + 1, stop
            if end < length and (not newest or has_record_after(data, end, number)):
                raise DataError(f"{path} is damaged at byte {end}, before its end: restore the file")
        assert number is not None
        log = cls(folder, numbers[-1], numbers[0], number, end, open_file)
        log.dropped, log._older, log._whole = length - end, older, end < length
        log._cut()
        return log

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return self._older + self._size

    def append(self, payloads: Sequence[Payload]) -> None:
        """Write records, all in one call of the system if it takes them.

        Parameters
        ----------
        payloads : sequence of sequences of buffers
            Each buffer is bytes, or a memoryview of bytes.

        Raises
        ------
        BitlaneError
            The disk is full or fails. None of the records is in the log then; `append` may be called again.
        """
        numbered = list(enumerate(payloads, self._next))
        buffers = [each for number, payload in numbered for each in (record_header(number, payload), *payload)]
        with _clear_errors(self._path):
            self._cut()
            if self._size >= SEGMENT_BYTES:
                self._begin_segment()
            self._whole = True
            try:
                written = append_all(self._file, buffers)
            except BaseException:
                with suppress(OSError):  # else before the next append, or in recovery
                    self._cut()
                raise
        self._whole = False
        self._next += len(payloads)
        self._size += written

    def sync(self) -> None:
        """Return when all records are on the disk."""
        with _clear_errors(self._path):
            self._file.sync()

    def rotate(self) -> int:
        """Begin a new segment; return its number. A checkpoint of this moment covers all segments before it."""
        with _clear_errors(self._path):
            self._cut()
            self._begin_segment()
        return self.segment

    def delete_before(self, segment: int) -> None:
        """Delete the segments before `segment`."""
        with _clear_errors(self.folder):
            for number in range(self._first, segment):
                path = path_of(self.folder, number)
                self._older -= path.stat().st_size
                path.unlink()
                self._first = number + 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _cut(self) -> None:
        if self._whole:
            self._file.truncate(self._size)
            self._whole = False

    def _begin_segment(self) -> None:
        self._file.sync()  # the segment before it is never torn, not by a loss of power either
        path = path_of(self.folder, self.segment + 1)
        try:
            _write_header(self.folder, self.segment + 1, self._next, self._open_file)
            file = self._open_file(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._file.close()
        self._older += self._size
        self._file, self._path, self._size, self.segment = file, path, SEGMENT_HEADER, self.segment + 1


def path_of(folder: Path, segment: int) -> Path:
    """Return the file of a segment."""
    return folder / f"{segment:012}.log"


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder, ascending."""
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def _write_header(folder: Path, segment: int, next_record: int, open_file: Callable[[Path], AppendFile]) -> None:
    file = open_file(path_of(folder, segment))
    try:
        append_all(file, [segment_header(segment, next_record)])
        file.sync()
    finally:
        file.close()
    sync_entries(folder)


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BitlaneError(f"{path} cannot be written: {reason_of(error)}") from error
