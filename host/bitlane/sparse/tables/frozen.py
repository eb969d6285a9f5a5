"""Frozen tables: keys and rows that do not change, in fewer bytes than a key and its values.

    header      64 bytes: magic, format, rows, width, bits of a value, bits of a bucket
    index       uint32 [2^bucket_bits + 1]      see `packing.py`
    remainders  uint64 [...]                    64 - bucket_bits bits a row
    levels      float32 [width, 2^bits]         of a codebook, if there is one
    values      float32 [rows, width], or codes of a codebook, side by side

Each section begins at a multiple of 64 bytes; integers are little-endian. The bytes in memory are those of the file, so
a file is read, or mapped, and used at once. Equal rows, and equal codebooks, give equal bytes.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.tables import packing
from bitlane.sparse.tables.codebooks import BITS, Codebook
from bitlane.sparse.tables.memory import ResizableArray
from bitlane.sparse.tables.mixing import keys_of, words_of

MAGIC, FORMAT = b"bitlane\n", 1
FLOAT_BITS = 32
BUCKET_WORDS = 4  # words of a bucket: on average this to twice this
LEAST_BUCKET_BITS, MOST_BUCKET_BITS = 4, 28
CHUNK_ROWS = 1 << 16
_HEADER = struct.Struct("<8sIIQQ")  # magic, format, bits of a value | bits of a bucket << 16, rows, width
_LINE = 64
_LARGEST = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

Keys = NDArray[np.uint64]
Rows = NDArray[np.float32]
Ranks = NDArray[np.int64]
Chunks = Iterable[tuple[Keys, Rows]]


class _Sections(NamedTuple):
    """Where the sections of a table lie: first byte and number of bytes."""

    starts: tuple[int, int]
    remainders: tuple[int, int]
    levels: tuple[int, int]
    values: tuple[int, int]

    @property
    def end(self) -> int:
        return _aligned(sum(self.values))


class FrozenTable:
    """Keys and rows that do not change. Make one by `freeze` or `from_buffer`; any thread may read it.

    A row takes 64 - log2(rows / 4) bits for its key, rounded up, 4 to 8 bits for the index, and its values.

    Parameters
    ----------
    data : uint8 [bytes]
        As in the file; aligned to 8 bytes, and writable, because loops are compiled for such arrays.
    """

    def __init__(self, data: NDArray[np.uint8]):
        self.data = data
        magic, version, bits, count, self.width = _HEADER.unpack_from(data.data)
        if magic != MAGIC:
            raise DataError("not a frozen table: its first bytes are different")
        if version != FORMAT:
            raise DataError(f"the table has format {version}; this version reads format {FORMAT}")
        self._count = int(count)
        self._bits = bits & 0xFFFF
        self._bucket_bits = bits >> 16
        in_range = LEAST_BUCKET_BITS <= self._bucket_bits <= MOST_BUCKET_BITS
        if not in_range or self._bits not in (*BITS, FLOAT_BITS) or self._count >= 1 << 32 or self.width >= 1 << 24:
            raise DataError("the table is damaged: its header is wrong")
        sections = _layout(self._count, self.width, self._bits, self._bucket_bits)
        if len(data) != sections.end:
            raise DataError(f"the table is damaged: it has {len(data):,} bytes instead of {sections.end:,}")
        self._index = self._section(sections.starts, np.uint32)
        self._remainders = self._section(sections.remainders, np.uint64)
        self._levels = self._section(sections.levels, np.float32).reshape(self.width, -1 if self.width else 0)
        self._values = self._section(sections.values, np.uint8 if self._bits != FLOAT_BITS else np.float32)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the table, in memory and as a file."""
        return len(self.data)

    @property
    def codebook(self) -> Codebook | None:
        """The levels of the columns; None: values are float32."""
        return None if self._bits == FLOAT_BITS else Codebook(self._levels)

    @classmethod
    def from_buffer(cls, buffer: bytes | bytearray | memoryview | mmap.mmap) -> FrozenTable:
        """Return the table of the bytes of a file.

        Parameters
        ----------
        buffer : object with the buffer protocol
            Memory that cannot be written, such as bytes, is copied. ``mmap`` with ``ACCESS_COPY`` is not.

        Raises
        ------
        DataError
            The bytes are damaged or cut off, or have another format.
        """
        data = np.frombuffer(buffer, np.uint8)
        if len(data) < _LINE:
            raise DataError(f"the table is damaged: it has {len(data)} bytes")
        if not data.flags.writeable or data.ctypes.data % 8:
            data = _copied(data)
        table = cls(data)
        table._check_index()
        return table

    def find(self, keys: Keys) -> Ranks:
        """Return the rank of each key in the order of the words, int64 [n]; -1 where the table does not have it.

        Parameters
        ----------
        keys : uint64 [n]
        """
        ranks = np.empty(len(keys), np.int64)
        keys = np.require(keys, np.uint64, ("C", "ALIGNED", "WRITEABLE"))
        packing.find(self._index, self._remainders, self._bucket_bits, keys, ranks)
        return ranks

    def read(self, ranks: Ranks, out: Rows | None = None) -> Rows:
        """Return the rows of these ranks, float32 [n, width]; zeros for -1."""
        out = np.empty((len(ranks), self.width), np.float32) if out is None else out
        if self._bits == FLOAT_BITS:
            packing.read_floats(self._values, self.width, ranks, out)
        else:
            packing.read_codes(self._values, self._levels, self._bits, ranks, out)
        return out

    def items(self, chunk: int = CHUNK_ROWS) -> Iterator[tuple[Keys, Rows]]:
        """Yield all keys, uint64 [m], and rows, float32 [m, width], in the order of the words."""
        for start in range(0, self._count, chunk):
            ranks = np.arange(start, min(start + chunk, self._count))
            words = np.empty(len(ranks), np.uint64)
            packing.unpack(self._index, self._remainders, self._bucket_bits, start, words)
            yield keys_of(words), self.read(ranks)

    def buffers(self) -> list[memoryview]:
        """Return the bytes of the table's file, in order. They share its memory."""
        return [self.data.data]

    def _section(self, bounds: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        start, size = bounds
        return self.data[start : start + size].view(dtype)

    def _check_index(self) -> None:
        index = self._index
        if index[0] != 0 or index[-1] != self._count or (index[1:] < index[:-1]).any():
            raise DataError("the table is damaged: its index is wrong")


def freeze(chunks: Chunks, count: int, width: int, codebook: Codebook | None = None) -> FrozenTable:
    """Return a frozen table.

    Parameters
    ----------
    chunks : iterable of (uint64 [m], float32 [m, width])
        Keys and rows in the order of words, as `Table.items` and `FrozenTable.items` yield them.
    count : int
        Number of keys.
    width : int
        Values of a row; 0 for keys alone.
    codebook : Codebook, optional
        Values become their nearest levels. Default: float32.

    Raises
    ------
    DataError
        A codebook of another width.
    ValueError
        The keys are not in order, or there are not `count` of them.
    """
    if codebook is not None and codebook.width != width:
        raise DataError(f"the codebook has {codebook.width} columns, the rows have {width}")
    bits = FLOAT_BITS if codebook is None else codebook.bits
    bucket_bits = min(max((count // BUCKET_WORDS).bit_length() - 1, LEAST_BUCKET_BITS), MOST_BUCKET_BITS)
    data = _zeros(_layout(count, width, bits, bucket_bits).end)
    _HEADER.pack_into(data.data, 0, MAGIC, FORMAT, bits | bucket_bits << 16, count, width)
    table = FrozenTable(data)
    if codebook is not None:
        table._levels[:] = codebook.levels
    done, previous = 0, np.uint64(0)
    for keys, rows in _in_order(chunks):
        words = words_of(keys)
        if done + len(words) > count:
            raise ValueError(f"got more than {count:,} keys")
        if packing.pack(table._index, table._remainders, bucket_bits, words, done, previous) < len(words):
            raise ValueError("keys must be in the order of their words, without duplicates")
        if codebook is None:
            table._values[done * width : (done + len(rows)) * width] = rows.reshape(-1)
        else:
            packing.write_codes(np.ascontiguousarray(rows), table._levels, bits, done, table._values)
        done, previous = done + len(words), words[-1]
    if done != count:
        raise ValueError(f"got {done:,} keys instead of {count:,}")
    packing.close_index(table._index)
    return table


def _in_order(chunks: Chunks) -> Iterator[tuple[Keys, Rows]]:
    """Yield the chunks that have keys; the key with the largest word, with which `Table.items` begins, comes last."""
    last: tuple[Keys, Rows] | None = None
    for keys, rows in chunks:
        if len(keys) and last is None and words_of(keys[:1])[0] == _LARGEST:
            last = keys[:1], rows[:1]
            keys, rows = keys[1:], rows[1:]
        if len(keys):
            yield keys, rows
    if last is not None:
        yield last


def _layout(count: int, width: int, bits: int, bucket_bits: int) -> _Sections:
    sections, at = [], _LINE
    words = -(-count * (64 - bucket_bits) // 64) + 1
    levels = 0 if bits == FLOAT_BITS else 4 * width << bits
    for size in (4 * ((1 << bucket_bits) + 1), 8 * words, levels, -(-count * width * bits // 8)):
        sections.append((at, size))
        at = _aligned(at + size)
    return _Sections(*sections)


def _aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE


def _zeros(size: int) -> NDArray[np.uint8]:
    return ResizableArray(np.uint8, (), size).array


def _copied(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    copy = _zeros(len(data))
    copy[:] = data
    return copy
