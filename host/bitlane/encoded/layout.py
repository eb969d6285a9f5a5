"""The bytes of a file with an encoded table, as `docs/guides/encoded-tables.md` describes them: little-endian.

A file is a root of 64 bytes, a description, blocks of rows, and an index, which the root points to. Whoever appends
writes behind the index, and the root last.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.quantization.scaling import Floats

from .column_codes import ColumnCodes

MAGIC = b"BITLANET"
VERSION = 1
ALIGN = 64  # bytes, of the description and of blocks
ROOT = struct.Struct("<8sIIQQQIIQI")  # what `Root` holds, and before it the magic bytes and the version
CHECK = struct.Struct("<I")
ROOT_BYTES = ROOT.size + CHECK.size


class Root(NamedTuple):
    """The first 64 bytes of a file.

    Attributes
    ----------
    described : int
        Bytes of the description, which begins at byte 64.
    index_offset, index_bytes : int
        Where the index is; 0 in a file that is being written.
    rows : int
    index_check, described_check : int
        CRC-32 of the index and of the description.
    job : int
        0; in a file that is being written a number of what is encoded and how.
    """

    described: int
    index_offset: int
    index_bytes: int
    rows: int
    index_check: int
    described_check: int
    job: int

    def packed(self) -> bytes:
        """Return the 64 bytes."""
        content = ROOT.pack(MAGIC, VERSION, *self, 0)
        return content + CHECK.pack(zlib.crc32(content))


def read_root(content: bytes, name: str) -> Root:
    """Return the root of a file; DataError if the first 64 bytes are not those of a file that this version reads."""
    if content[: len(MAGIC)] != MAGIC:
        raise DataError(f"{name} is no encoded table: make one with bitlane encode")
    if len(content) < ROOT_BYTES:
        raise DataError(f"{name} is truncated: encode it again")
    _, version, *numbers, _ = ROOT.unpack(content[: ROOT.size])
    if CHECK.unpack(content[ROOT.size : ROOT_BYTES])[0] != zlib.crc32(content[: ROOT.size]):
        raise damaged(name, "its first 64 bytes")
    if version != VERSION:
        raise DataError(f"{name} has version {version}, but this bitlane reads version {VERSION}: update bitlane")
    return Root(*numbers)


class ColumnStatistics(NamedTuple):
    """Of the columns in some rows, before clipping.

    Attributes
    ----------
    low, high, total : float64 arrays [n]
    clipped : float64 array [n]
        Values that are beyond the scale of their column.
    """

    low: Floats
    high: Floats
    total: Floats
    clipped: Floats

    def merged(self, more: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics over the rows of both."""
        low, high = np.minimum(self.low, more.low), np.maximum(self.high, more.high)
        return ColumnStatistics(low, high, self.total + more.total, self.clipped + more.clipped)


class Beside(NamedTuple):
    """What a block holds beside its planes.

    Attributes
    ----------
    y : float64 array [rows, targets]
    weights : float64 array [rows], or None
    groups : int64 array [rows], or None
    statistics : ColumnStatistics
    """

    y: Floats
    weights: Floats | None
    groups: NDArray[np.int64] | None
    statistics: ColumnStatistics


@dataclass(frozen=True, eq=False)
class TableDescription:
    """What all blocks of a file have in common.

    Attributes
    ----------
    codes : ColumnCodes
    targets : tuple of str
        Names of the labels of a row; empty without labels.
    weights, groups : bool
        Whether rows have a weight and a group.
    block_rows : int
        Rows of a block; the last one before the end of a writing has fewer.
    """

    codes: ColumnCodes
    targets: tuple[str, ...]
    weights: bool
    groups: bool
    block_rows: int

    def packed(self) -> bytes:
        """Return its bytes, a multiple of 64."""
        codes = self.codes
        words = {
            "bits": codes.bits,
            "columns": len(codes.scale),
            "names": None if codes.names is None else list(codes.names),
            "targets": list(self.targets),
            "weights": self.weights,
            "groups": self.groups,
            "block_rows": self.block_rows,
        }
        text = json.dumps(words, ensure_ascii=False).encode()
        content = struct.pack("<Q", len(text)) + text + codes.center.tobytes() + codes.scale.tobytes()
        return content + bytes(-len(content) % ALIGN)

    @classmethod
    def unpacked(cls, content: bytes) -> TableDescription:
        """Return the description with these bytes, whose check was right."""
        (size,) = struct.unpack("<Q", content[:8])
        words = json.loads(content[8 : 8 + size])
        scales = np.frombuffer(content, np.float64, 2 * words["columns"], 8 + size).reshape(2, -1)
        names = None if words["names"] is None else tuple(words["names"])
        codes = ColumnCodes(words["bits"], scales[0], scales[1], names)
        return cls(codes, tuple(words["targets"]), words["weights"], words["groups"], words["block_rows"])

    # --- a block: planes, labels, weights, groups, statistics, zeros, and the trailer
    def plane_bytes(self, rows: int) -> int:
        """Return the bytes of a plane of a block."""
        return 8 * rows * self.codes.chunks

    def rest_bytes(self, rows: int) -> int:
        """Return the bytes of a block behind its planes, without the trailer."""
        of_row = len(self.targets) + self.weights + self.groups
        used = 8 * (rows * of_row + len(ColumnStatistics._fields) * len(self.codes.scale))
        planes = self.codes.digits * self.plane_bytes(rows)
        return used + -(planes + used + self.trailer_bytes) % ALIGN

    def beside(self, rest: bytes | memoryview, rows: int) -> Beside:
        """Return what lies in the bytes of a block behind its planes, as copies."""
        ends = np.cumsum([0, rows * len(self.targets), rows * self.weights, rows * self.groups])
        y, weights, groups = (
            np.frombuffer(rest, np.float64, stop - start, 8 * start).copy() for start, stop in pairwise(ends.tolist())
        )
        return Beside(
            y.reshape(rows, len(self.targets)),
            weights if self.weights else None,
            groups.view(np.int64) if self.groups else None,
            unpack_statistics(rest, 8 * int(ends[-1]), len(self.codes.scale)),
        )

    @property
    def trailer_bytes(self) -> int:
        """Bytes of a trailer: CRC-32 of each plane and of the rest, rows, and CRC-32 of the trailer."""
        return 4 * (self.codes.digits + 3)

    def block_bytes(self, rows: int) -> int:
        """Return the bytes of a block."""
        return self.codes.digits * self.plane_bytes(rows) + self.rest_bytes(rows) + self.trailer_bytes


class BlockEntry(NamedTuple):
    """A block in the index.

    Attributes
    ----------
    offset, rows : int
        First byte in the file, and rows.
    checks : tuple of int
        CRC-32 of each plane, and of the rest.
    """

    offset: int
    rows: int
    checks: tuple[int, ...]

    def trailer(self) -> bytes:
        """Return the trailer of the block."""
        content = np.array([*self.checks, self.rows], "<u4").tobytes()
        return content + CHECK.pack(zlib.crc32(content))


def pack_index(blocks: list[BlockEntry], statistics: ColumnStatistics) -> bytes:
    """Return an index."""
    entries = b"".join(struct.pack("<QQ", *block[:2]) + np.array(block.checks, "<u4").tobytes() for block in blocks)
    return struct.pack("<Q", len(blocks)) + entries + np.stack(statistics).tobytes()


def unpack_index(content: bytes, description: TableDescription) -> tuple[list[BlockEntry], ColumnStatistics]:
    """Return what an index holds, whose check was right."""
    (count,) = struct.unpack("<Q", content[:8])
    checks = description.codes.digits + 1
    entry = struct.Struct(f"<QQ{checks}I")
    found = [entry.unpack_from(content, 8 + i * entry.size) for i in range(count)]
    blocks = [BlockEntry(offset, rows, tuple(rest)) for offset, rows, *rest in found]
    return blocks, unpack_statistics(content, 8 + count * entry.size, len(description.codes.scale))


def unpack_statistics(content: bytes | memoryview, offset: int, n: int) -> ColumnStatistics:
    """Return the statistics of n columns that begin at a byte."""
    fields = len(ColumnStatistics._fields)
    numbers = np.frombuffer(content, np.float64, fields * n, offset)
    return ColumnStatistics(*numbers.reshape(fields, n).copy())


def damaged(name: str, what: str) -> DataError:
    """Return the error of a file whose bytes have changed."""
    return DataError(f"{name} is damaged: {what} changed since it was written; encode it again")
