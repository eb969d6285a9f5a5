"""Random rounding's random words: a function of the batch's seed, the place in the batch, and the lane.

Counted up and mixed by a few rounds of a Feistel network of rotations and ANDs, 16 bits a half (that of Simon: Beaulieu
et al., 2013), a lookup table a bit in hardware. So a run that stops and goes on needs the seed alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .layout import CHUNK

Words = NDArray[np.uint32]

SEED_BITS = 32
SEED_STEP = 0x9E37_79B9  # what the seed grows by at a batch's end; odd, so that none comes twice
PLACE_STEP = 0x85EB_CA6B  # from one place in a batch to the next: a chunk's, or a group's
RANDOM_ROUNDS = 8
ROUND_KEYS = tuple((i + 1) * SEED_STEP >> 16 & 0xFFFF for i in range(RANDOM_ROUNDS))
MAX_CUT = 27  # bits that rounding may leave out


def lane_offset(lane: int) -> int:
    """What tells the lanes' random words apart: 0 to 31 publish weights, 32 on round s and d of each column."""
    mixed = (lane + 1) * PLACE_STEP & 0xFFFF_FFFF
    return (mixed ^ mixed >> 15) * 0xC2B2_AE35 & 0xFFFF_FFFF


def random_words(seed: int, places: range, lanes: Words) -> Words:
    """Random words uint32 [places, lanes] of a batch with this seed; lanes: `lane_offset`, uint32 [lanes]."""
    counted = np.arange(places.start, places.stop, dtype=np.uint32) * np.uint32(PLACE_STEP) + np.uint32(seed)
    mixed = counted[:, None] ^ lanes
    high, low = mixed >> np.uint32(16), mixed & np.uint32(0xFFFF)
    for key in ROUND_KEYS:
        high, low = low ^ (_rotated(high, 1) & _rotated(high, 8)) ^ _rotated(high, 2) ^ np.uint32(key), high
    made: Words = high << np.uint32(16) | low
    return made


def after_batches(seed: int, batches: int) -> int:
    """The seed some batches later."""
    return (seed + batches * SEED_STEP) % (1 << SEED_BITS)


def model_lanes() -> Words:
    """Offsets of the 32 lanes that publish a chunk's weights."""
    return np.array([lane_offset(lane) for lane in range(CHUNK)], np.uint32)


def scaled_gradient_lanes(rows_per_beat: int) -> Words:
    """Offsets uint32 [2 columns] of the lanes of s and d of each column."""
    return np.array([lane_offset(CHUNK + lane) for lane in range(2 * rows_per_beat)], np.uint32)


def _rotated(half: Words, left: int) -> Words:
    turned: Words = (half << np.uint32(left) | half >> np.uint32(16 - left)) & np.uint32(0xFFFF)
    return turned
