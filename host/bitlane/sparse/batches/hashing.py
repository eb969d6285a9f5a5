"""64-bit keys of categorical cells.

The key of a cell is xxh64, with seed 0, of the UTF-8 bytes of ``column=value``; an integer is written in decimal, and a
missing or empty cell is ``column=``. The key of a numeric column is xxh64 of its name. Every language has xxh64: a
predictor elsewhere finds the same keys. A cross mixes the keys of its cells: see `cross_keys`.

The library xxhash makes one key a call, under the interpreter's lock. The loops here make those of all cells of a
column, and hold no lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.scanning import inlined, kernel

Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint64]
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]  # where texts begin and end

_u64 = np.uint64
_P1, _P2, _P3 = _u64(11400714785074694791), _u64(14029467366897019727), _u64(1609587929392839161)
_P4, _P5 = _u64(9650029242287828579), _u64(2870177450012600261)
_GOLDEN, _M1, _M2 = _u64(0x9E3779B97F4A7C15), _u64(0xBF58476D1CE4E5B9), _u64(0x94D049BB133111EB)
_64 = _u64(64)
_DIGITS = 20  # of 2^64 - 1; of -2^63 with its sign


def cell_key(column: str, value: str | int | None) -> int:
    """Return the key of one cell: xxh64 of ``column=value``; None is the empty value."""
    return int(cell_keys(column, ["" if value is None else value])[0])


def cell_keys(column: str, values: Sequence[str | bytes | int]) -> NDArray[np.uint64]:
    """Return the keys of cells of one column: uint64 [n]."""
    cells = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(cell) for cell in cells], dtype=np.int64)])
    return text_keys(column, np.frombuffer(b"".join(cells), np.uint8), offsets)


def column_key(column: str) -> int:
    """Return the key of a numeric column: xxh64 of its name."""
    name = np.frombuffer(column.encode(), np.uint8)
    keys = np.empty(1, np.uint64)
    _hash_texts(name, name[:0], np.zeros(2, np.int64), keys)
    return int(keys[0])


def text_keys(column: str, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the keys of cells of one column.

    Parameters
    ----------
    column : str
    text : uint8 [bytes]
        The cells' UTF-8 bytes.
    offsets : int64 [cells + 1]
        Cell i is ``text[offsets[i]:offsets[i + 1]]``.

    Returns
    -------
    uint64 [cells]
    """
    keys = np.empty(len(offsets) - 1, np.uint64)
    read_only = text.view()  # one type for numba
    read_only.flags.writeable = False
    _hash_texts(_prefix(column), read_only, offsets, keys)
    return keys


def span_keys(text: NDArray[np.uint8], heads: Spans, tails: Spans) -> NDArray[np.uint64]:
    """Return the keys of cells whose columns and values are spans of a text.

    Parameters
    ----------
    text : uint8 [bytes]
    heads, tails : (int64 [cells], int64 [cells])
        Where the columns and the values begin and end. The key of a cell without a column is xxh64 of its value.

    Returns
    -------
    uint64 [cells]
    """
    keys = np.empty(len(tails[0]), np.uint64)
    _hash_spans(text, heads, tails, keys)
    return keys


def integer_keys(column: str, values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return the keys of integer cells: uint64 [cells], as those of their decimal text."""
    keys = np.empty(len(values), np.uint64)
    signed = values.dtype.kind == "i"
    words = values.astype(np.int64).view(np.uint64) if signed else values.astype(np.uint64)
    _hash_integers(_prefix(column), words, signed, keys)
    return keys


def cross_keys(columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the keys of crossed cells.

    ``h = a``, then ``h = mix(h * 0x9E3779B97F4A7C15 + b)`` for each further key b, modulo 2^64, where mix is the
    finalizer of SplitMix64. The order of the columns matters.

    Parameters
    ----------
    columns : sequence of uint64 [cells]
        The cells' keys in two columns or more.

    Returns
    -------
    uint64 [cells]
    """
    if len(columns) < 2:
        raise DataError(f"a cross needs at least 2 columns; got {len(columns)}")
    keys: NDArray[np.uint64] = columns[0].copy()
    for column in columns[1:]:
        _mix_into(keys, column)
    return keys


def _prefix(column: str) -> NDArray[np.uint8]:
    return np.frombuffer(column.encode() + b"=", np.uint8)


# --- the loops
@inlined
def _rotate(x: np.uint64, bits: np.uint64) -> Any:
    return (x << bits) | (x >> (_64 - bits))


@inlined
def _lane(data: Bytes, at: int, size: int) -> Any:
    """Return `size` bytes as a little-endian number."""
    word = _u64(0)
    for byte in range(size):
        word |= _u64(data[at + byte]) << _u64(8 * byte)
    return word


@inlined
def _round(accumulator: np.uint64, lane: np.uint64) -> Any:
    return _rotate(accumulator + lane * _P2, _u64(31)) * _P1


@inlined
def _xxh64(data: Bytes, size: int) -> Any:
    """Return xxh64 with seed 0 of the first `size` bytes (Y. Collet, xxHash specification 0.1.1)."""
    at = 0
    if size >= 32:
        a, b, c, d = _P1 + _P2, _P2, _u64(0), _u64(0) - _P1
        while at + 32 <= size:
            a = _round(a, _lane(data, at, 8))
            b = _round(b, _lane(data, at + 8, 8))
            c = _round(c, _lane(data, at + 16, 8))
            d = _round(d, _lane(data, at + 24, 8))
            at += 32
        word = _rotate(a, _u64(1)) + _rotate(b, _u64(7)) + _rotate(c, _u64(12)) + _rotate(d, _u64(18))
        for each in (a, b, c, d):
            word = (word ^ _round(_u64(0), each)) * _P1 + _P4
    else:
        word = _P5
    word += _u64(size)
    while at + 8 <= size:
        word = _rotate(word ^ _round(_u64(0), _lane(data, at, 8)), _u64(27)) * _P1 + _P4
        at += 8
    if at + 4 <= size:
        word = _rotate(word ^ (_lane(data, at, 4) * _P1), _u64(23)) * _P2 + _P3
        at += 4
    while at < size:
        word = _rotate(word ^ (_u64(data[at]) * _P5), _u64(11)) * _P1
        at += 1
    word = (word ^ (word >> _u64(33))) * _P2
    word = (word ^ (word >> _u64(29))) * _P3
    return word ^ (word >> _u64(32))


@inlined
def _copy_prefix(prefix: Bytes, message: Bytes) -> None:
    for byte in range(len(prefix)):  # assigning a slice takes four seconds to compile: its error needs strings
        message[byte] = prefix[byte]


@kernel
def _hash_texts(prefix: Bytes, text: Bytes, offsets: NDArray[np.int64], keys: Keys) -> None:
    head, longest = len(prefix), 0
    for cell in range(len(keys)):
        longest = max(longest, offsets[cell + 1] - offsets[cell])
    message = np.empty(head + longest, np.uint8)
    _copy_prefix(prefix, message)
    for cell in range(len(keys)):
        start, size = offsets[cell], offsets[cell + 1] - offsets[cell]
        for byte in range(size):
            message[head + byte] = text[start + byte]
        keys[cell] = _xxh64(message, head + size)


@kernel
def _hash_spans(text: Bytes, heads: Spans, tails: Spans, keys: Keys) -> None:
    longest = 0
    for cell in range(len(keys)):
        longest = max(longest, heads[1][cell] - heads[0][cell] + tails[1][cell] - tails[0][cell])
    message = np.empty(longest + 1, np.uint8)
    for cell in range(len(keys)):
        size = 0
        for byte in range(heads[0][cell], heads[1][cell]):
            message[size] = text[byte]
            size += 1
        if size > 0:
            message[size] = 61  # =
            size += 1
        for byte in range(tails[0][cell], tails[1][cell]):
            message[size] = text[byte]
            size += 1
        keys[cell] = _xxh64(message, size)


@kernel
def _hash_integers(prefix: Bytes, words: Keys, signed: bool, keys: Keys) -> None:
    head = len(prefix)
    message = np.empty(head + _DIGITS, np.uint8)
    digits = np.empty(_DIGITS, np.uint8)
    _copy_prefix(prefix, message)
    for cell in range(len(keys)):
        word, size = words[cell], head
        if signed and word >> _u64(63):
            message[size] = 45  # -
            size += 1
            word = _u64(0) - word
        count = 0
        while True:
            digits[count] = _u64(48) + word % _u64(10)
            word //= _u64(10)
            count += 1
            if word == _u64(0):
                break
        for digit in range(count):
            message[size + digit] = digits[count - 1 - digit]
        keys[cell] = _xxh64(message, size + count)


@kernel
def _mix_into(keys: Keys, column: Keys) -> None:
    for cell in range(len(keys)):
        x = keys[cell] * _GOLDEN + column[cell]
        x = (x ^ (x >> _u64(30))) * _M1
        x = (x ^ (x >> _u64(27))) * _M2
        keys[cell] = x ^ (x >> _u64(31))
