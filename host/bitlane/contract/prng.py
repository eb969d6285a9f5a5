"""Random words for random rounding: a function of the seed of the batch, the index in the batch, and the lane.

A counter is mixed by a few rounds of a Feistel network of rotations and ANDs, with 16 bits in each half (the network of
Simon: Beaulieu et al., 2013). In hardware this takes one lookup table per bit. A resumed run needs only the seed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .layout import CHUNK

Words = NDArray[np.uint32]

SEED_BITS = 32
SEED_STEP = 0x9E37_79B9  # what the seed grows by at a batch's end; odd, so that none comes twice
INDEX_STEP = 0x85EB_CA6B  # from one index in a batch to the next: a chunk's, or a group's
RANDOM_ROUNDS = 8
ROUND_KEYS = tuple((i + 1) * SEED_STEP >> 16 & 0xFFFF for i in range(RANDOM_ROUNDS))
MAX_CUT = 30  # bits that rounding may leave out


def lane_offset(lane: int) -> int:
    """Return the offset that makes the random words of a lane differ from those of other lanes.

    Lanes 0 to 31 publish weights; from 32 on, lanes round s and d of each row of a beat.
    """
    mixed = (lane + 1) * INDEX_STEP & 0xFFFF_FFFF
    return (mixed ^ mixed >> 15) * 0xC2B2_AE35 & 0xFFFF_FFFF


def random_words(seed: int, indices: range, lanes: Words) -> Words:
    """Return the random words of a batch.

    Parameters
    ----------
    seed : int
        Seed of the batch, 32 bits.
    indices : range
        Indices in the batch: of chunks or of groups.
    lanes : uint32 array [lanes]
        Offsets from `lane_offset`.

    Returns
    -------
    uint32 array [indices, lanes]
    """
    counted = np.arange(indices.start, indices.stop, dtype=np.uint32) * np.uint32(INDEX_STEP) + np.uint32(seed)
    return mixed(counted[:, None] ^ lanes)


def mixed(words: Words, rounds: int = RANDOM_ROUNDS) -> Words:
    """Return words, uint32 of any shape, after some rounds of the network, at most `RANDOM_ROUNDS`: a bijection."""
    high, low = (words >> np.uint32(16)).astype(np.uint16), words.astype(np.uint16)
    for key in ROUND_KEYS[:rounds]:
        high, low = low ^ (_rotated(high, 1) & _rotated(high, 8)) ^ _rotated(high, 2) ^ np.uint16(key), high
    made: Words = high.astype(np.uint32) << np.uint32(16) | low
    return made


def after_batches(seed: int, batches: int) -> int:
    """Return the seed `batches` batches later."""
    return (seed + batches * SEED_STEP) % (1 << SEED_BITS)


def model_lanes() -> Words:
    """Return the offsets of the 32 lanes that publish the weights of a chunk."""
    return np.array([lane_offset(lane) for lane in range(CHUNK)], np.uint32)


def scaled_gradient_lanes(rows_per_beat: int) -> Words:
    """Return the offsets, uint32 [2 * rows_per_beat], of the lanes of s and d of each row of a beat."""
    return np.array([lane_offset(CHUNK + lane) for lane in range(2 * rows_per_beat)], np.uint32)


def _rotated(half: NDArray[np.uint16], left: int) -> NDArray[np.uint16]:
    turned: NDArray[np.uint16] = half << np.uint16(left) | half >> np.uint16(16 - left)
    return turned
