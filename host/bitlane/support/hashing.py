"""Random words for stochastic rounding: a function of a seed and a value's place, alike on every machine.

Nothing has to be kept: a run that goes on at step t draws what the run that did not stop drew. The mixer is that of
`lowbias32` (C. Wellons, 2018): two multiplications, and few enough operations for vector units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FRACTION = 16  # bits of a word that stochastic rounding takes: those behind the point of what is rounded
PLACE = 0x9E3779B9
FIRST, SECOND = 0x7FEB352D, 0x846CA68B


def hash_words(seed: int, places: NDArray[np.int64]) -> NDArray[np.uint32]:
    """uint32 [n]: a random word for each place (modulo 2**32)."""
    return mix(places.astype(np.uint32) * np.uint32(PLACE) + np.uint32(seed))


def mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A bijection of 32-bit words in which every bit of x changes about half of the bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(FIRST)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(SECOND)
    mixed: NDArray[np.uint32] = x ^ (x >> np.uint32(16))
    return mixed


def seed_of(*parts: int) -> int:
    """A seed, 32 bits, of several numbers: the user's, step, rank and stage, so that none draws twice."""
    seed = np.zeros(1, np.uint32)
    for part in parts:
        seed = mix(seed * np.uint32(PLACE) + np.uint32(part & 0xFFFFFFFF) + np.uint32(1))
    return int(seed[0])
