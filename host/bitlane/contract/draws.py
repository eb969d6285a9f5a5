"""Random words of draws: a function of the draw set, the row and the stored feature.

So order, pieces, threads and devices change no draw. A word holds the uniform numbers of both draws of a value, 16 bits
each. Words come from the network of `bitlane.contract.prng`: 8 rounds for each row, and a few for each feature, which
take 16 lookup tables a round in hardware. All words of a row differ, because the network is a bijection; for the same
reason the two halves of a word are exactly independent over all row words. Draw sets come in groups of 16 that share
their words and differ in the strata of the uniform numbers, a quarter of the range each: see `DrawSet`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .prng import Words, lane_offset, mixed, random_words

DRAW_BITS = 16  # of the uniform number that a draw compares with the position in the interval
DRAW_ROUNDS = 5  # with 4, draws of features up to 2,048 apart have correlations up to 0.04
FEATURE_STEP = 0xF28E_D069  # from one stored feature to the next; odd, chosen for small correlations after 5 rounds
ROW_LANE = np.array([lane_offset(64)], np.uint32)  # no lane of random rounding
GROUP_SETS = 16  # draw sets that share their words
# The bit of a word that each bit of a set's number inverts: the two high bits of both uniform numbers in turn, so that
# the first 2, 4, 8 and 16 sets of a group have 2 x 1, 2 x 2, 4 x 2 and 4 x 4 strata.
STRATUM_BITS = (31, 15, 30, 14)


class DrawSet(NamedTuple):
    """A draw set: the words of its group, with some of their bits inverted.

    All sets of a group have the strata of one word, so the mean of their draws is within a stratum of the value, while
    the draws of each set alone are exactly those of a random word, and both draws of a value stay independent.

    Attributes
    ----------
    seed : int
        Seed of the words of the group, 32 bits.
    number : int
        Of the set in its group, 0 to ``GROUP_SETS - 1``.
    """

    seed: int
    number: int

    @property
    def mask(self) -> np.uint32:
        """The bits of a word that this set inverts."""
        mask: np.uint32 = np.uint32(sum(1 << bit for i, bit in enumerate(STRATUM_BITS) if self.number >> i & 1))
        return mask


def row_words(seed: int, rows: range) -> Words:
    """Return the words that the draws of rows begin with.

    Parameters
    ----------
    seed : int
        `DrawSet.seed`, 32 bits.
    rows : range
        Numbers of rows in the data set, in the order of training.

    Returns
    -------
    uint32 array [rows]
    """
    return random_words(seed, rows, ROW_LANE)[:, 0]


def draw_words(of_rows: Words, features: int) -> Words:
    """Return the words of both draws for the first set of a group: the high half for the first draw, the low half for
    the second. The words of other sets are these, exclusive or `DrawSet.mask`.

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
