"""Random words of draws: a function of the draw set, the row and the stored feature.

So order, pieces, threads and devices change no draw. A word holds the uniform numbers of both draws of a value, 16 bits
each. Words come from the network of `bitlane.contract.prng`: 8 rounds for each row, and a few for each feature, which
take 16 lookup tables a round in hardware. All words of a row differ, because the network is a bijection; for the same
reason the two halves of a word are exactly independent over all row words.
"""

from __future__ import annotations

import numpy as np

from .prng import Words, lane_offset, mixed, random_words

DRAW_BITS = 16  # of the uniform number that a draw compares with the position in the interval
DRAW_ROUNDS = 5  # with 4, draws of features up to 2,048 apart have correlations up to 0.04
FEATURE_STEP = 0xF28E_D069  # from one stored feature to the next; odd, chosen for small correlations after 5 rounds
ROW_LANE = np.array([lane_offset(64)], np.uint32)  # no lane of random rounding


def row_words(seed: int, rows: range) -> Words:
    """Return the words that the draws of rows begin with.

    Parameters
    ----------
    seed : int
        Seed of the draw set, 32 bits.
    rows : range
        Numbers of rows in the data set, in the order of training.

    Returns
    -------
    uint32 array [rows]
    """
    return random_words(seed, rows, ROW_LANE)[:, 0]


def draw_words(of_rows: Words, features: int) -> Words:
    """Return the words of both draws: the high half for the first, the low half for the second.

    Parameters
    ----------
    of_rows : uint32 array [rows]
        From `row_words`.
    features : int
        Stored features of a row.

    Returns
    -------
    uint32 array [rows, features]
    """
    return mixed(of_rows[:, None] + feature_offsets(features), DRAW_ROUNDS)


def feature_offsets(features: int) -> Words:
    """Return the offsets of the words of stored features, uint32 [features], modulo ``2**32``."""
    offsets: Words = np.arange(features, dtype=np.uint32) * np.uint32(FEATURE_STEP)
    return offsets
