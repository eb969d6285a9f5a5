"""Keys become words: a bijection of 64 bits that spreads any keys evenly, with its inverse.

The steps are those of the 64-bit finalizer of splitmix64 (Stafford's variant 13): two multiplications by odd constants
between three xors with the word's own high bits. Each step can be undone.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bitlane.support.jit import machine_code

Word = TypeVar("Word", np.uint64, NDArray[np.uint64])

_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_A, _B = (np.uint64(factor) for factor in _FACTORS)
_INVERSE_A, _INVERSE_B = (np.uint64(pow(factor, -1, 1 << 64)) for factor in _FACTORS)
_FIRST, _SECOND, _THIRD = _SHIFTS
_TWICE_FIRST, _TWICE_SECOND, _TWICE_THIRD = (np.uint64(2 * int(shift)) for shift in _SHIFTS)


def _word_of(key: Word) -> Any:
    word = (key ^ (key >> _FIRST)) * _A
    word = (word ^ (word >> _SECOND)) * _B
    return word ^ (word >> _THIRD)


def _key_of(word: Word) -> Any:
    # x ^ (x >> s) is undone by x ^ (x >> s) ^ (x >> 2s): the shifts are above 21, so that 3s reaches 64
    key = (word ^ (word >> _THIRD) ^ (word >> _TWICE_THIRD)) * _INVERSE_B
    key = (key ^ (key >> _SECOND) ^ (key >> _TWICE_SECOND)) * _INVERSE_A
    return key ^ (key >> _FIRST) ^ (key >> _TWICE_FIRST)


word_of = machine_code(_word_of, nogil=True)
key_of = machine_code(_key_of, nogil=True)


def words_of(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the word of each key.

    Parameters
    ----------
    keys : uint64 [n]

    Returns
    -------
    uint64 [n]
    """
    return np.asarray(_word_of(keys))


def keys_of(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the keys that have these words: the inverse of `words_of`.

    Parameters
    ----------
    words : uint64 [n]

    Returns
    -------
    uint64 [n]
    """
    return np.asarray(_key_of(words))
