"""Rows in few bytes: what a server answers to a read, and the gradients of a worker's step.

| codec | a row of v values | bytes |
| --- | --- | --- |
| `float32` | as it is | 4 v |
| `float16` | rounded at random, right on average; sizes above 65,504 become 65,504 | 2 v |
| `int8` | multiples of the largest size / 127, rounded at random, right on average | 4 + v |
| `ternary` | -1, 0 or 1, in base 3, times a scale of 4 bits for each group of values | 1 for each group + v / 5 |
| `fixed` | multiples of `UNIT`, int32, in as many bits as the row's numbers need (`pack_rows`) | 1 to 4 v + 2 |

Groups are neighbours in a row, such as the linear weight and the factors of an FM. Rows of `ternary` and `fixed` are
integers in units of `UNIT`, which can be added and subtracted without an error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers.key_codec import decode_keys, encode_keys
from bitlane.sparse.servers.row_kernels import (
    SYMBOLS,
    pack_rows,
    pack_symbols,
    scale,
    size_of_rows,
    to_half,
    to_int8,
    unpack_rows,
    unpack_symbols,
)

FRACTION_BITS = 20
UNIT = 2.0**-FRACTION_BITS
ROW_CODECS = ("float32", "float16", "int8")
# The codecs of a chunk, in the order of their numbers on the wire, and what the rows are stored as.
CHUNK_DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "ternary": np.int8, "fixed": np.int32}
_COUNT = struct.Struct("<B")
_CHUNK = struct.Struct("<BBIII")  # codec, whether keys are packed, keys, bytes of the keys, bytes of the rows
_SCALES = np.array([scale(code) for code in range(256)], np.int64)

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def scales_of(codes: Bytes) -> NDArray[np.int64]:
    """Return the scales that have these codes (`row_kernels.round_up`), int64, in units of `UNIT`."""
    return _SCALES[codes]


def round_to_half(rows: Floats, seed: int) -> NDArray[np.float16]:
    """Return rows as float16, each value rounded up or down at random so that its mean is right.

    Sizes above 65,504, infinity too, become 65,504. NaN stays.

    Parameters
    ----------
    rows : float32 [n, values]
    seed : int
        0 to 2^64 - 1. The same seed gives the same draws.
    """
    out = np.empty(rows.size, np.uint16)
    to_half(_writeable(rows, np.float32).reshape(-1), np.uint64(seed), out)
    return out.view(np.float16).reshape(rows.shape)


def encode_rows(rows: Floats, codec: str, seed: int) -> Bytes:
    """Return rows as bytes.

    Parameters
    ----------
    rows : float32 [n, values]
    codec : {"float32", "float16", "int8"}
    seed : int
        Of the random rounding, 0 to 2^64 - 1.

    Returns
    -------
    uint8 [bytes]

    Raises
    ------
    DataError
        An unknown codec, or a value that is not finite for ``"int8"``.
    """
    _check_codec(codec, ROW_CODECS)
    if codec == "float32":
        return _bytes_of(np.asarray(rows, "<f4"))
    if codec == "float16":
        return _bytes_of(round_to_half(rows, seed))
    if not np.isfinite(rows).all():
        row = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise DataError(f"codec 'int8' needs finite values; row {row} is not finite: the training has diverged")
    scales, numbers = np.empty(len(rows), np.float32), np.empty(rows.shape, np.int8)
    to_int8(_writeable(rows, np.float32), np.uint64(seed), scales, numbers)
    return np.concatenate([_bytes_of(scales), _bytes_of(numbers)])


def decode_rows(data: Bytes, n: int, values: int, codec: str) -> Floats:
    """Return the rows of `encode_rows`.

    Parameters
    ----------
    data : uint8 [bytes]
    n, values : int
    codec : {"float32", "float16", "int8"}

    Returns
    -------
    float32 [n, values]

    Raises
    ------
    DataError
        An unknown codec, or not the bytes of n rows.
    """
    _check_codec(codec, ROW_CODECS)
    size = {"float32": 4 * values, "float16": 2 * values, "int8": 4 + values}[codec]
    _check_bytes(data, n * size, n, codec)
    if codec == "int8":
        scales, numbers = data[: 4 * n].view("<f4"), data[4 * n :].view(np.int8)
        return np.asarray(scales[:, None] * numbers.reshape(n, values), np.float32)
    dtype = "<f4" if codec == "float32" else "<f2"
    return np.array(np.ascontiguousarray(data).view(dtype), np.float32).reshape(n, values)


@dataclass(frozen=True, eq=False)
class GradientChunk:
    """Rows of gradients that are sent with one codec.

    Parameters
    ----------
    codec : {"float32", "float16", "ternary", "fixed"}
    keys : uint64 [n]
        Distinct.
    rows : float32, float16, int8 (-1, 0 or 1) or int32 [n, values], by codec
    scales : uint8 [n, groups]
        Of ``"ternary"``: codes of `scales_of`. Empty otherwise.
    groups : tuple of int
        Of ``"ternary"``: the sizes of the groups of a row; together all values. Empty otherwise.

    Raises
    ------
    DataError
        An unknown codec, or shapes and dtypes that do not fit it.
    """

    codec: str
    keys: Keys
    rows: NDArray[Any]
    scales: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_codec(self.codec, tuple(CHUNK_DTYPES))
        n = len(self.keys)
        if self.rows.ndim != 2 or len(self.rows) != n or self.rows.dtype != CHUNK_DTYPES[self.codec]:
            wanted = f"{np.dtype(CHUNK_DTYPES[self.codec])} [{n}, values]"
            raise DataError(f"codec {self.codec!r} needs rows {wanted}; got {self.rows.dtype} {list(self.rows.shape)}")
        values = self.rows.shape[1]
        if self.codec == "ternary" and (sum(self.groups) != values or self.scales.shape != (n, len(self.groups))):
            raise DataError(
                f"codec 'ternary' needs groups of {values} values in all and scales [{n}, groups]; got groups "
                f"{self.groups} and scales {list(self.scales.shape)}"
            )

    def take(self, indices: NDArray[np.int64]) -> GradientChunk:
        """Return the rows at `indices`, int64 [m], as a chunk."""
        scales = self.scales[indices] if self.codec == "ternary" else self.scales
        return GradientChunk(self.codec, self.keys[indices], self.rows[indices], scales, self.groups)

    def units(self) -> NDArray[np.int64]:
        """Return the rows of ``"ternary"`` or ``"fixed"`` in units of `UNIT`, int64 [n, values]."""
        rows = self.rows.astype(np.int64)
        return rows * np.repeat(scales_of(self.scales), self.groups, axis=1) if self.codec == "ternary" else rows

    def gradients(self) -> Floats:
        """Return the gradients that a server applies, float32 [n, values].

        Those of ``"ternary"`` are exact multiples of `UNIT`; of ``"fixed"`` too, up to a size of 16.
        """
        if self.codec in ("ternary", "fixed"):
            return (self.units() * UNIT).astype(np.float32)
        return self.rows.astype(np.float32)


def encode_chunks(chunks: Sequence[GradientChunk], *, pack_keys: bool) -> Bytes:
    """Return chunks as bytes.

    Parameters
    ----------
    chunks : sequence of GradientChunk
        At most 255.
    pack_keys : bool
        Sort the rows of each chunk by key and write `encode_keys`, instead of 8 bytes a key.

    Returns
    -------
    uint8 [bytes]
    """
    buffers = [np.frombuffer(_COUNT.pack(len(chunks)), np.uint8)]
    for chunk in chunks:
        if pack_keys:
            chunk = chunk.take(np.argsort(chunk.keys))
        keys = encode_keys(chunk.keys) if pack_keys else _bytes_of(chunk.keys)
        rows = _pack_rows(chunk)
        number = list(CHUNK_DTYPES).index(chunk.codec)
        head = _CHUNK.pack(number, int(pack_keys), len(chunk.keys), len(keys), len(rows))
        buffers += [np.frombuffer(head, np.uint8), keys, rows]
    return np.concatenate(buffers)


def decode_chunks(data: Bytes, values: int) -> tuple[Keys, Floats]:
    """Return keys and gradients of `encode_chunks`, chunk after chunk.

    Parameters
    ----------
    data : uint8 [bytes]
    values : int
        Of a row.

    Returns
    -------
    keys : uint64 [n]
    gradients : float32 [n, values]

    Raises
    ------
    DataError
        The data is damaged, too short or too long. Nothing is read beyond its end.
    """
    data = _writeable(data, np.uint8)
    keys: list[Keys] = [np.zeros(0, np.uint64)]
    gradients: list[Floats] = [np.zeros((0, values), np.float32)]
    if len(data) < _COUNT.size:
        raise DataError("an empty push: the message is damaged")
    at = _COUNT.size
    for _ in range(data[0]):
        if at + _CHUNK.size > len(data):
            raise DataError(f"a push of {len(data)} bytes ends within a chunk: the message is damaged")
        number, packed, count, key_bytes, row_bytes = _CHUNK.unpack_from(data.data, at)
        at += _CHUNK.size
        if number >= len(CHUNK_DTYPES) or packed > 1 or at + key_bytes + row_bytes > len(data):
            raise DataError(f"byte {at - _CHUNK.size} of a push does not begin a chunk: the message is damaged")
        key_data = data[at : at + key_bytes]
        if packed:
            keys.append(decode_keys(key_data, count))
        else:
            _check_bytes(key_data, 8 * count, count, "keys")
            keys.append(key_data.copy().view("<u8"))
        at += key_bytes
        chunk = _unpack_rows(list(CHUNK_DTYPES)[number], keys[-1], data[at : at + row_bytes], values)
        gradients.append(chunk.gradients())
        at += row_bytes
    if at != len(data):
        raise DataError(f"a push has {len(data) - at} bytes behind its last chunk: the message is damaged")
    return np.concatenate(keys), np.concatenate(gradients)


def _pack_rows(chunk: GradientChunk) -> Bytes:
    if chunk.codec == "ternary":
        symbols = np.zeros(-(-chunk.rows.size // SYMBOLS), np.uint8)
        pack_symbols(_writeable(chunk.rows, np.int8).reshape(-1), symbols)
        head = struct.pack(f"<B{len(chunk.groups)}H", len(chunk.groups), *chunk.groups)
        return np.concatenate([np.frombuffer(head, np.uint8), _bytes_of(chunk.scales), symbols])
    if chunk.codec == "fixed":
        rows = _writeable(chunk.rows, np.int32)
        data = np.zeros(-(-size_of_rows(rows) // 8), np.uint8)
        pack_rows(rows, data)
        return data
    return _bytes_of(chunk.rows)


def _unpack_rows(codec: str, keys: Keys, data: Bytes, values: int) -> GradientChunk:
    n = len(keys)
    if codec == "ternary":
        return _unpack_ternary(keys, data, values)
    if codec == "fixed":
        numbers = np.empty((n, values), np.int32)
        bits = unpack_rows(data, numbers)
        if bits < 0 or -(-bits // 8) != len(data):
            raise DataError(f"{len(data)} bytes do not hold {n} rows of codec 'fixed': the message is damaged")
        return GradientChunk(codec, keys, numbers)
    dtype = np.dtype(CHUNK_DTYPES[codec])
    _check_bytes(data, n * values * dtype.itemsize, n, codec)
    return GradientChunk(codec, keys, data.copy().view(dtype).reshape(n, values))


def _unpack_ternary(keys: Keys, data: Bytes, values: int) -> GradientChunk:
    n, count = len(keys), int(data[0]) if len(data) else 0
    at = 1 + 2 * count
    groups = tuple(data[1:at].copy().view("<u2").tolist()) if at <= len(data) else ()
    if sum(groups) != values:
        raise DataError(f"ternary rows of {values} values need groups of as many; got {groups}: the message is damaged")
    end = at + n * count
    _check_bytes(data, end + -(-n * values // SYMBOLS), n, "ternary")
    if np.any(data[end:] >= 3**SYMBOLS):
        raise DataError("a byte of ternary rows is above 242: the message is damaged")
    symbols = np.empty(n * values, np.int8)
    unpack_symbols(data[end:], symbols)
    return GradientChunk("ternary", keys, symbols.reshape(n, values), data[at:end].reshape(n, count), groups)


def _check_codec(codec: str, known: Sequence[str]) -> None:
    if codec not in known:
        raise DataError(f"codec must be one of {', '.join(known)}; got {codec!r}")


def _check_bytes(data: Bytes, wanted: int, n: int, what: str) -> None:
    if len(data) != wanted:
        raise DataError(f"{n} rows of {what!r} need {wanted} bytes; got {len(data)}: the message is damaged")


def _bytes_of(array: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _writeable(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return the array or a copy that can be written: numba compiles a loop again for others."""
    return np.require(array, dtype, ("C", "ALIGNED", "WRITEABLE"))
