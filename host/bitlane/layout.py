"""Codes, labels and weights as the 64-bit words that lie in the accelerator's memory.

A row is `chunks` chunks of 32 features; a word holds one radix-4 digit of each feature of a chunk, feature j
in bits `2j+1 .. 2j`. Words are numpy uint64 of a little-endian host, which all supported hosts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract import (
    CHUNK,
    CHUNK_MODEL_BYTES,
    CHUNK_MODEL_WORDS,
    DIGIT_BITS,
    LABEL,
    LABELS_PER_WORD,
    MASTER,
    MASTER_OFFSET,
    MAX_DIGITS,
    WORD_BITS,
)
from .errors import DataError

BLOCK_ROWS = 1024  # rows packed at a time, a multiple of LABELS_PER_WORD: what a cache holds
LANES = 8  # digits gathered at a time: the bytes of a 64-bit word
GROUPS = CHUNK // LANES

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Geometry:
    """The shape of a stored data set.

    Parameters
    ----------
    features: features of a row, without padding.
    rows: rows of an epoch.
    base_digits: radix-4 base digits a feature, 0 to 16.
    draws: whether a draw digit follows them.

    Raises
    ------
    DataError: a size below one, too many digits, or none.
    """

    features: int
    rows: int
    base_digits: int
    draws: bool

    def __post_init__(self) -> None:
        if self.features < 1 or self.rows < 1:
            raise DataError(f"a table of {self.rows} rows and {self.features} features holds no sample")
        if not 0 <= self.base_digits <= MAX_DIGITS or not self.digits:
            raise DataError(f"{self.base_digits} base digits and {self.draws:d} draw digits are no precision")

    @property
    def chunks(self) -> int:
        """Chunks of 32 features a row."""
        return -(-self.features // CHUNK)

    @property
    def digits(self) -> int:
        """Words a chunk."""
        return self.base_digits + self.draws

    @property
    def row_words(self) -> int:
        """Words a row, labels apart."""
        return self.chunks * self.digits

    @property
    def label_words(self) -> int:
        """Label words an epoch."""
        return -(-self.rows // LABELS_PER_WORD)

    @property
    def base_words(self) -> int:
        """Words of a base region: labels and base digits."""
        return self.label_words + self.rows * self.chunks * self.base_digits

    @property
    def draw_words(self) -> int:
        """Words of a draw region."""
        return self.rows * self.chunks * self.draws

    @property
    def model_words(self) -> int:
        """Words of a model."""
        return self.chunks * CHUNK_MODEL_WORDS

    @property
    def model_bytes(self) -> int:
        """Bytes of a model."""
        return self.chunks * CHUNK_MODEL_BYTES

    @property
    def beats(self) -> int:
        """Words that an epoch reads."""
        return self.base_words + self.draw_words

    @property
    def raw_bound(self) -> float:
        """Cycles an epoch if nothing but the stored bits of features and labels moved, one word a cycle."""
        return self.rows * (self.features * self.digits * DIGIT_BITS + LABEL.bits) / WORD_BITS

    @property
    def layout_bound(self) -> float:
        """Cycles an epoch at one word a cycle, with the padding of the last chunk."""
        return self.rows * (CHUNK * self.row_words * DIGIT_BITS + LABEL.bits) / WORD_BITS

    def base_offset(self, row: int) -> int:
        """Words of a base region ahead of `row`, a multiple of four."""
        return row // LABELS_PER_WORD + row * self.chunks * self.base_digits


def pack_base(codes: NDArray[np.uint32], labels: NDArray[np.int16], geometry: Geometry) -> Words:
    """A base region.

    Parameters
    ----------
    codes: uint32 [rows, n], base codes below `4**base_digits`.
    labels: int16 [rows], in units of `2**-15`.
    geometry: rows and features of these arrays.

    Returns
    -------
    uint64 [base_words].

    Raises
    ------
    DataError: arrays of another shape.
    """
    _expect(codes, (geometry.rows, geometry.features), "codes")
    _expect(labels, (geometry.rows,), "labels")
    row_words = geometry.chunks * geometry.base_digits
    groups = np.zeros((geometry.label_words, 1 + LABELS_PER_WORD * row_words), np.uint64)
    padded = np.zeros(geometry.label_words * LABELS_PER_WORD, np.int16)
    padded[: geometry.rows] = labels
    groups[:, 0] = padded.view(np.uint64)
    if row_words:
        for rows in _blocks(geometry.rows):
            words = np.zeros((BLOCK_ROWS, geometry.chunks, geometry.base_digits), np.uint64)
            block = codes[rows]
            _pack_digits(block, words[: len(block)])
            some = groups[rows.start // LABELS_PER_WORD : rows.stop // LABELS_PER_WORD]
            some[:, 1:] = words.reshape(-1, LABELS_PER_WORD * row_words)[: len(some)]
    return groups.reshape(-1)[: geometry.base_words]


def unpack_base(words: Words, geometry: Geometry) -> tuple[NDArray[np.uint32], NDArray[np.int16]]:
    """Codes uint32 [rows, n] and labels int16 [rows] of a base region: the inverse of `pack_base`."""
    _expect(words, (geometry.base_words,), "words")
    row_words = geometry.chunks * geometry.base_digits
    group = 1 + LABELS_PER_WORD * row_words
    groups = np.zeros((geometry.label_words, group), np.uint64)
    groups.reshape(-1)[: geometry.base_words] = words
    labels = np.ascontiguousarray(groups[:, 0]).view(np.int16)[: geometry.rows]
    shape = (geometry.label_words * LABELS_PER_WORD, geometry.chunks, geometry.base_digits)
    digits = groups[:, 1:].reshape(shape)[: geometry.rows]
    return _unpack_digits(digits, geometry.features), labels


def pack_draws(codes: NDArray[np.uint8], geometry: Geometry) -> Words:
    """A draw region: codes `2 * u1 + u2`, uint8 [rows, n], as uint64 [draw_words]; DataError otherwise."""
    _expect(codes, (geometry.rows, geometry.features), "codes")
    words = np.empty((geometry.rows, geometry.chunks, 1), np.uint64)
    for rows in _blocks(geometry.rows):
        _pack_digits(codes[rows], words[rows])
    return words.reshape(-1)


def unpack_draws(words: Words, geometry: Geometry) -> NDArray[np.uint8]:
    """Draw codes uint8 [rows, n] of a draw region: the inverse of `pack_draws`."""
    _expect(words, (geometry.rows * geometry.chunks,), "words")
    digits = words.reshape(geometry.rows, geometry.chunks, 1)
    return _unpack_digits(digits, geometry.features).astype(np.uint8)


def pack_model(weights: NDArray[np.float64]) -> Words:
    """Scaled weights float64 [n], clipped to [-8, 8), as uint64 [chunks * 16]."""
    return pack_master(master_weights(weights))


def unpack_model(words: Words, features: int) -> NDArray[np.float64]:
    """Scaled weights float64 [features] of a stored model."""
    return weight_values(unpack_master(words, features))


def master_weights(weights: NDArray[np.float64]) -> NDArray[np.int32]:
    """Scaled weights, float64 of any shape, as stored: int32 in units of `2**-28`, 128 too high, clipped."""
    units = np.rint(np.ldexp(weights, MASTER.fraction)) + MASTER_OFFSET
    master: NDArray[np.int32] = np.clip(units, MASTER.minimum, MASTER.maximum).astype(np.int32)
    return master


def weight_values(master: NDArray[np.int32]) -> NDArray[np.float64]:
    """Scaled weights, float64, of stored int32 ones of any shape: the inverse of `master_weights`."""
    return np.ldexp(master.astype(np.float64) - MASTER_OFFSET, -MASTER.fraction)


def pack_master(master: NDArray[np.int32]) -> Words:
    """Master weights int32 [n], two a word, the even feature low; missing features are stored as 0 is."""
    padded = np.full(-(-len(master) // CHUNK) * CHUNK, MASTER_OFFSET, np.int32)
    padded[: len(master)] = master
    return padded.view(np.uint64)


def unpack_master(words: Words, features: int) -> NDArray[np.int32]:
    """Master weights int32 [features] of a stored model uint64 [chunks * 16]: `pack_master` undone."""
    return np.array(words).view(np.int32)[:features]


# The eight digits in the bytes of a word move together in three steps: pairs, quads, all.
_STEPS = ((6, 0x000F000F000F000F), (12, 0x000000FF000000FF), (24, 0x000000000000FFFF))
_SPREAD = (0x000000FF000000FF, 0x000F000F000F000F, 0x0303030303030303)
_DIGIT = np.uint64(0x0303030303030303)


def _pack_digits(codes: NDArray[np.unsignedinteger], words: NDArray[np.uint64]) -> None:
    """Fills words [rows, chunks, digits] with the digits of codes [rows, n], the most significant first."""
    rows, chunks, digits = words.shape
    quarters = words.view(np.uint16).reshape(rows, chunks, digits, GROUPS)
    plane = np.zeros((rows, chunks * CHUNK), np.uint8)
    lanes = plane.view(np.uint64).reshape(rows, chunks, GROUPS)
    for low in range(0, digits, 4):  # the four digits of a byte
        np.right_shift(codes, DIGIT_BITS * low, out=plane[:, : codes.shape[1]], casting="unsafe")
        for digit in range(low, min(low + 4, digits)):
            gathered = (lanes >> np.uint64(DIGIT_BITS * (digit - low))) & _DIGIT
            for shift, mask in _STEPS:
                gathered |= gathered >> np.uint64(shift)
                gathered &= np.uint64(mask)
            quarters[:, :, digits - 1 - digit] = gathered


def _unpack_digits(words: NDArray[np.uint64], features: int) -> NDArray[np.uint32]:
    """Codes uint32 [rows, features] of words [rows, chunks, digits]."""
    rows, chunks, digits = words.shape
    codes = np.zeros((rows, features), np.uint32)
    for digit in range(digits):
        word = np.ascontiguousarray(words[:, :, digit])
        lanes = word.view(np.uint16).reshape(rows, chunks * GROUPS).astype(np.uint64)
        for (shift, _), mask in zip(reversed(_STEPS), _SPREAD, strict=True):
            lanes |= lanes << np.uint64(shift)
            lanes &= np.uint64(mask)
        codes <<= np.uint32(DIGIT_BITS)
        codes |= lanes.view(np.uint8)[:, :features]
    return codes


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK_ROWS):
        yield slice(start, start + BLOCK_ROWS)


def _expect(array: NDArray[np.generic], shape: tuple[int, ...], name: str) -> None:
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}, but the geometry says {shape}")
