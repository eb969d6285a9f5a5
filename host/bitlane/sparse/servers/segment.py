"""Records in a file of the write-ahead log: their form on the disk, and how they are found again.

    segment   32 bytes: b"BLSPLOG1", number of the segment, number of its first record, checksum; then records
    record    24 bytes: b"REC1", length of the payload, number of the record, checksum of all else; then the payload

Numbers are little-endian; the checksum is XXH3, 64 bits. Records are numbered through all segments.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.support.optional import require_extra

_SEGMENT = struct.Struct("<8sQQQ")
_RECORD = struct.Struct("<4sIQQ")
_SEGMENT_MAGIC, _RECORD_MAGIC = b"BLSPLOG1", b"REC1"
SEGMENT_HEADER, RECORD_HEADER = _SEGMENT.size, _RECORD.size
LARGEST_PAYLOAD = (1 << 32) - 1
_BUFFERS = 512  # of one writev; Linux takes 1,024
_WITHOUT_CHECKSUM = 16  # bytes of a record's header before its checksum

Payload = Sequence[Any]  # buffers that follow each other


class AppendFile:
    """A file that grows at its end."""

    def __init__(self, path: Path):
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, buffers: Sequence[memoryview]) -> int:
        """Append some of the bytes; return how many. OSError: none were."""
        return os.writev(self._file, buffers[:_BUFFERS])

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(self._file, size)

    def sync(self) -> None:
        """Return when all data is on the disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def append_all(file: AppendFile, buffers: Sequence[Any]) -> int:
    """Append all buffers; return their size."""
    left = [memoryview(each).cast("B") for each in buffers if len(each)]
    total = sum(map(len, left))
    while left:
        written = file.write(left)
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]
    return total


def segment_header(segment: int, first_record: int) -> bytes:
    """Return the header of a segment."""
    head = _SEGMENT.pack(_SEGMENT_MAGIC, segment, first_record, 0)[:-8]
    return head + _checksum(head).to_bytes(8, "little")


def record_header(number: int, payload: Payload) -> bytes:
    """Return the header of a record."""
    length = sum(len(each) for each in payload)
    if length > LARGEST_PAYLOAD:
        raise DataError(f"an update must be smaller than 4 GiB; this one has {length:,} bytes")
    head = _RECORD.pack(_RECORD_MAGIC, length, number, 0)[:_WITHOUT_CHECKSUM]
    return head + _checksum(head, *payload).to_bytes(8, "little")


def first_record_of(data: bytes, segment: int) -> int | None:
    """Return the number of a segment's first record; None if the header is damaged or belongs to another segment."""
    if len(data) < SEGMENT_HEADER:
        return None
    _, number, first, _ = _SEGMENT.unpack_from(data)
    return int(first) if data[:SEGMENT_HEADER] == segment_header(number, first) and number == segment else None


def records(data: bytes, number: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the end and the payload of each sound record, from record `number` on, up to the first that is not."""
    at = SEGMENT_HEADER
    while (end := _end_of_record(data, at, number)) is not None:
        yield end, memoryview(data)[at + RECORD_HEADER : end]
        at, number = end, number + 1


def has_record_after(data: bytes, at: int, number: int) -> bool:
    """Return whether a sound record with a number above `number` begins behind byte `at`."""
    start = data.find(_RECORD_MAGIC, at + 1)
    while start >= 0 and start + RECORD_HEADER <= len(data):
        other = _RECORD.unpack_from(data, start)[2]
        if other > number and _end_of_record(data, start, other) is not None:
            return True
        start = data.find(_RECORD_MAGIC, start + 1)
    return False


def _end_of_record(data: bytes, at: int, number: int) -> int | None:
    """The end of the record that begins at byte `at`; None if it is damaged, torn, or has another number."""
    if at + RECORD_HEADER > len(data):
        return None
    magic, length, actual, checksum = _RECORD.unpack_from(data, at)
    end = at + RECORD_HEADER + length
    if magic != _RECORD_MAGIC or actual != number or end > len(data):
        return None
    view = memoryview(data)
    sound = checksum == _checksum(view[at : at + _WITHOUT_CHECKSUM], view[at + RECORD_HEADER : end])
    return int(end) if sound else None


@cache
def _xxhash() -> Any:
    return require_extra("xxhash", "the log of a parameter server", "'bitlane[sparse]'")


def _checksum(*buffers: bytes | memoryview) -> int:
    state = _xxhash().xxh3_64()
    for buffer in buffers:
        state.update(buffer)
    return int(state.intdigest())
