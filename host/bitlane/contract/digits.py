"""Codes as words: one radix-4 digit of 32 features in a word, or one half digit (a bit) of 64 features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .layout import CHUNK, DIGIT_BITS, WORD_BITS

LANES = 8  # digits gathered at a time: the bytes of a 64-bit word
OCTETS = CHUNK // LANES

# The eight digits in the bytes of a word move together in three steps: pairs, quads, all.
_STEPS = ((6, 0x000F000F000F000F), (12, 0x000000FF000000FF), (24, 0x000000000000FFFF))
_SPREAD = (0x000000FF000000FF, 0x000F000F000F000F, 0x0303030303030303)
_DIGIT = np.uint64(0x0303030303030303)


def pack_digits(codes: NDArray[np.unsignedinteger], words: NDArray[np.uint64]) -> None:
    """Fill words with the digits of codes, the most significant digit first.

    Parameters
    ----------
    codes : unsigned array [rows, n]
    words : uint64 array [rows, chunks, digits]
        Overwritten.
    """
    rows, chunks, digits = words.shape
    quarters = words.view(np.uint16).reshape(rows, chunks, digits, OCTETS)
    plane = np.zeros((rows, chunks * CHUNK), np.uint8)
    lanes = plane.view(np.uint64).reshape(rows, chunks, OCTETS)
    for low in range(0, digits, 4):  # the four digits of a byte
        np.right_shift(codes, DIGIT_BITS * low, out=plane[:, : codes.shape[1]], casting="unsafe")
        for digit in range(low, min(low + 4, digits)):
            gathered = (lanes >> np.uint64(DIGIT_BITS * (digit - low))) & _DIGIT
            for shift, mask in _STEPS:
                gathered |= gathered >> np.uint64(shift)
                gathered &= np.uint64(mask)
            quarters[:, :, digits - 1 - digit] = gathered


def unpack_digits(words: NDArray[np.uint64], features: int) -> NDArray[np.uint32]:
    """Return the codes, uint32 [rows, features], of words [rows, chunks, digits]: the inverse of `pack_digits`."""
    rows, chunks, digits = words.shape
    codes = np.zeros((rows, features), np.uint32)
    for digit in range(digits):
        word = np.ascontiguousarray(words[:, :, digit])
        lanes = word.view(np.uint16).reshape(rows, chunks * OCTETS).astype(np.uint64)
        for (shift, _), mask in zip(reversed(_STEPS), _SPREAD, strict=True):
            lanes |= lanes << np.uint64(shift)
            lanes &= np.uint64(mask)
        codes <<= np.uint32(DIGIT_BITS)
        codes |= lanes.view(np.uint8)[:, :features]
    return codes


def pack_halves(codes: NDArray[np.unsignedinteger], words: NDArray[np.uint64], digits: int) -> None:
    """Fill words [rows, count] with the half digits of codes [rows, n]: the one bit above `digits` radix-4 digits."""
    rows, count = words.shape
    bits = np.zeros((rows, count * WORD_BITS), np.uint8)
    np.right_shift(codes, DIGIT_BITS * digits, out=bits[:, : codes.shape[1]], casting="unsafe")
    words[:] = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def unpack_halves(words: NDArray[np.uint64], features: int) -> NDArray[np.uint8]:
    """Return the half digits, uint8 [rows, features], of words [rows, count]: the inverse of `pack_halves`."""
    octets = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=features, bitorder="little")
