"""Sorted words in few bits: the loops that write, find and read a frozen table.

The high `bucket_bits` bits of a word are its *bucket*, the other r bits its *remainder*. ``index[b]`` is the rank of
the first word of bucket b, so a word's bucket follows from its rank, and only remainders are stored, r bits each,
side by side. Words are spread evenly, so a word's rank in its bucket is nearly proportional to its remainder: a
search begins there and walks a few words; after `_STEPS` words it halves what is left, so that words that are not
spread evenly cost little as well.

The loops share these parameters: `index`, uint32 [2^bucket_bits + 1]; `remainders`, uint64 [words], with one word more
than the bits need; `values`, float32 [rows * width], or codes, uint8 [bytes], with `levels`, float32 [width, 2^bits].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.tables.mixing import word_of
from bitlane.support.instructions import prefetch
from bitlane.support.jit import machine_code

Words = NDArray[np.uint64]
Index = NDArray[np.uint32]
Ranks = NDArray[np.int64]
Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]

_LAG = 12  # keys between the stages of a search
_RING = 64  # keys that are in work: a power of two, above twice the lag
_AHEAD = 24  # rows that are on their way
_STEPS = 16
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_63, _64 = np.uint64(63), np.uint64(64)
_6 = np.uint64(6)


def _remainder_at(remainders: Words, rank: int, bits: np.uint64) -> Any:
    """The remainder of `bits` bits at `rank`."""
    first_bit = np.uint64(rank) * bits
    at, shift = first_bit >> _6, first_bit & _63
    low = remainders[at] >> shift
    high = (remainders[at + _ONE] << _ONE) << (_63 - shift)
    return (low | high) & ((_ONE << bits) - _ONE)


remainder_at = machine_code(_remainder_at, nogil=True)


def _guess(first: np.int64, last: np.int64, remainder: np.uint64, bits: np.uint64) -> Any:
    """The rank that a remainder would have if those of its bucket, ranks `first` to `last` - 1, were spread evenly."""
    return first + np.int64(((remainder >> (bits - _HALF)) * np.uint64(last - first)) >> _HALF)


guess = machine_code(_guess, nogil=True)


def _rank_of(
    remainders: Words, first: np.int64, last: np.int64, start: np.int64, remainder: np.uint64, bits: np.uint64
) -> Any:
    """The rank of a remainder among the ranks `first` to `last` - 1, or -1; the search begins at `start`."""
    if first == last:
        return np.int64(-1)
    here = remainder_at(remainders, start, bits)
    if here == remainder:
        return start
    step = np.int64(1) if here < remainder else np.int64(-1)
    rank = start
    for _ in range(_STEPS):
        rank += step
        if rank < first or rank >= last:
            return np.int64(-1)
        here = remainder_at(remainders, rank, bits)
        if here == remainder:
            return rank
        if (here > remainder) == (step > 0):
            return np.int64(-1)
    low, high = (rank + 1, last) if step > 0 else (first, rank)
    while low < high:
        middle = (low + high) >> 1
        if remainder_at(remainders, middle, bits) < remainder:
            low = middle + 1
        else:
            high = middle
    if low < last and remainder_at(remainders, low, bits) == remainder:
        return low
    return np.int64(-1)


rank_of = machine_code(_rank_of, nogil=True)


def _find(index: Index, remainders: Words, bucket_bits: int, keys: Words, ranks: Ranks) -> None:
    """Write the rank of each key, -1 where it is absent.

    A key passes three stages, `_LAG` keys apart, so that memory answers while other keys are in work: its bucket's
    entry of the index is fetched; the word where its remainder should be is fetched; its remainder is searched.
    """
    bits = np.uint64(64 - bucket_bits)
    mask = (_ONE << bits) - _ONE
    words, starts = np.empty(_RING, np.uint64), np.empty(_RING, np.int64)
    for i in range(len(keys) + 2 * _LAG):
        if i < len(keys):
            word = word_of(keys[i])
            words[i & (_RING - 1)] = word
            prefetch(index, np.int64(word >> bits))
        second = i - _LAG
        if 0 <= second < len(keys):
            word = words[second & (_RING - 1)]
            bucket = word >> bits
            start = guess(np.int64(index[bucket]), np.int64(index[bucket + _ONE]), word & mask, bits)
            starts[second & (_RING - 1)] = start
            prefetch(remainders, np.int64((np.uint64(start) * bits) >> _6))
        third = second - _LAG
        if third >= 0:
            word = words[third & (_RING - 1)]
            bucket = word >> bits
            first, last = np.int64(index[bucket]), np.int64(index[bucket + _ONE])
            ranks[third] = rank_of(remainders, first, last, starts[third & (_RING - 1)], word & mask, bits)


find = machine_code(_find, nogil=True)


def _pack(index: Index, remainders: Words, bucket_bits: int, words: Words, start: int, previous: np.uint64) -> int:
    """Write ascending words from rank `start` on; `previous` is the last word before.

    Returns the number of words that are in order. Bucket b's entry of the index becomes the rank behind its last word;
    `close_index` fills those of empty buckets.
    """
    bits = np.uint64(64 - bucket_bits)
    mask = (_ONE << bits) - _ONE
    for i in range(len(words)):
        word = words[i]
        if start + i > 0 and word <= previous:
            return i
        previous = word
        first_bit = np.uint64(start + i) * bits
        at, shift = first_bit >> _6, first_bit & _63
        remainder = word & mask
        remainders[at] |= remainder << shift
        if shift + bits > _64:
            remainders[at + _ONE] |= remainder >> (_64 - shift)
        index[(word >> bits) + _ONE] = start + i + 1
    return len(words)


pack = machine_code(_pack, nogil=True)


def _close_index(index: Index) -> None:
    """Let the entries of empty buckets be those before them."""
    for bucket in range(1, len(index)):
        index[bucket] = max(index[bucket], index[bucket - 1])


close_index = machine_code(_close_index, nogil=True)


def _unpack(index: Index, remainders: Words, bucket_bits: int, start: int, words: Words) -> None:
    """Write the words from rank `start` on."""
    bits = np.uint64(64 - bucket_bits)
    bucket = np.searchsorted(index, start, side="right") - 1
    for i in range(len(words)):
        while np.int64(index[bucket + 1]) <= start + i:
            bucket += 1
        words[i] = (np.uint64(bucket) << bits) | remainder_at(remainders, start + i, bits)


unpack = machine_code(_unpack, nogil=True)


def _read_floats(values: Floats, width: int, ranks: Ranks, out: Floats) -> None:
    """Write the rows of these ranks to `out` [n, width]; zeros for -1."""
    for i in range(len(ranks)):
        if i + _AHEAD < len(ranks):
            at = ranks[i + _AHEAD] * width
            for line in range(0, width, 16):
                prefetch(values, at + line)
            prefetch(values, at + width - 1)
        if ranks[i] < 0:
            for column in range(width):
                out[i, column] = 0
        else:
            for column in range(width):
                out[i, column] = values[ranks[i] * width + column]


read_floats = machine_code(_read_floats, nogil=True)


def _read_codes(codes: Codes, levels: Floats, bits: int, ranks: Ranks, out: Floats) -> None:
    """Write the levels of the codes of these ranks to `out` [n, width]; zeros for -1."""
    width, mask = levels.shape[0], (1 << bits) - 1
    row_bits = width * bits
    for i in range(len(ranks)):
        if i + _AHEAD < len(ranks):
            at = (ranks[i + _AHEAD] * row_bits) >> 3
            for line in range(0, row_bits >> 3, 64):
                prefetch(codes, at + line)
            prefetch(codes, at + (row_bits >> 3))
        if ranks[i] < 0:
            for column in range(width):
                out[i, column] = 0
            continue
        bit = ranks[i] * row_bits
        for column in range(width):
            code = (np.int64(codes[bit >> 3]) >> (bit & 7)) & mask
            out[i, column] = levels[column, code]
            bit += bits


read_codes = machine_code(_read_codes, nogil=True)


def _write_codes(rows: Floats, levels: Floats, bits: int, start: int, codes: Codes) -> None:
    """Write the code of the nearest level for each value of `rows` [n, width], from rank `start` on.

    Halfway between two levels, the lower one is taken; of equal levels the first one.
    """
    width, last = levels.shape[0], levels.shape[1] - 1
    bit = start * width * bits
    for i in range(len(rows)):
        for column in range(width):
            value = rows[i, column]
            low, high = 0, last
            while low < high:  # the first level that is nearer to the value than all before
                middle = (low + high) >> 1
                if value - levels[column, middle] > levels[column, middle + 1] - value:
                    low = middle + 1
                else:
                    high = middle
            while low > 0 and levels[column, low - 1] == levels[column, low]:
                low -= 1
            codes[bit >> 3] |= np.uint8(low << (bit & 7))
            bit += bits


write_codes = machine_code(_write_codes, nogil=True)
