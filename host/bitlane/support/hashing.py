"""Counter-based random words for stochastic rounding: the same on every machine, and no generator state to save.

A word is a function of a seed and an index, so a run resumed at step t draws the same words as an uninterrupted run.
The mixer is `lowbias32` (C. Wellons, 2018): two multiplications, few enough operations for vector units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FRACTION_BITS = 16  # bits of a word that stochastic rounding compares with the fraction of a value
GOLDEN_RATIO = 0x9E3779B9  # 2**32 / golden ratio: spreads consecutive indices over all words
MULTIPLIERS = (0x7FEB352D, 0x846CA68B)  # of lowbias32


def hash_words(seed: int, indices: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return one random word for each index.

    Parameters
    ----------
    seed : int
        32 bits, for example from `derive_seed`.
    indices : int64 [n]
        Taken modulo 2**32.

    Returns
    -------
    uint32 [n]
    """
    return lowbias32(indices.astype(np.uint32) * np.uint32(GOLDEN_RATIO) + np.uint32(seed))


def lowbias32(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix 32-bit words by a bijection; flipping any bit of x changes about half of the output bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(MULTIPLIERS[0])
    x = (x ^ (x >> np.uint32(15))) * np.uint32(MULTIPLIERS[1])
    mixed: NDArray[np.uint32] = x ^ (x >> np.uint32(16))
    return mixed


def derive_seed(*keys: int) -> int:
    """Return a 32-bit seed from several numbers in order, for example user seed, step, rank and stage."""
    seed = np.zeros(1, np.uint32)
    for key in keys:
        seed = lowbias32(seed * np.uint32(GOLDEN_RATIO) + np.uint32(key & 0xFFFFFFFF) + np.uint32(1))
    return int(seed[0])
