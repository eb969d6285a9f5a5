"""The rows that each member learns in each step: a function that all members compute alike, without a sampler's state.

The rows of a round are drawn from a permutation of the data set. Its members have disjoint parts of it. The permutation
is a Feistel network (Luby and Rackoff, 1988) with cycle walking (Black and Rogaway, 2002), so it takes no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.support.hashing import derive_seed, hash_words
from bitlane.support.scalars import as_integer

from .settings import Place

FEISTEL_ROUNDS = 6
MOST_ROWS = 1 << 62


@dataclass(frozen=True)
class DataShare:
    """Batches of a data set for the members of an `ElasticDiLoCo`.

    Parameters
    ----------
    rows : int
        Rows of the data set.
    batch : int
        Rows of a batch of one member.
    every : int
        Inner steps of a round, as in `ElasticDiLoCo`.
    seed : int, default: 0
        Seed of the permutations; equal on all members.

    Raises
    ------
    DataError
        If a number is not an integer of at least 1, or the seed one of at least 0.

    Examples
    --------
    >>> from bitlane.compress.elastic.settings import Place
    >>> from bitlane.compress.elastic.shares import DataShare
    >>> share = DataShare(rows=8, batch=2, every=2)
    >>> sorted(int(row) for rank in (0, 1) for step in (4, 5) for row in share.batch_rows(Place(step, rank, 2)))
    [0, 1, 2, 3, 4, 5, 6, 7]
    """

    rows: int
    batch: int
    every: int
    seed: int = 0

    def __post_init__(self) -> None:
        as_integer("rows", self.rows, 1, MOST_ROWS)
        for name, least in (("batch", 1), ("every", 1), ("seed", 0)):
            as_integer(name, getattr(self, name), least)

    def batch_rows(self, place: Place) -> Tensor:
        """Return the rows of the next batch of a member, int64 [batch].

        In a round, no row comes twice, in all batches of all members, if the data set has enough rows; otherwise it is
        gone through in several permutations. Rounds draw anew, so an epoch has no end.
        """
        number, step = divmod(place.step, self.every)
        first = (place.rank * self.every + step) * self.batch
        positions = np.arange(first, first + self.batch, dtype=np.int64)
        result, passes = np.empty(self.batch, np.int64), positions // self.rows
        for each in np.unique(passes):
            seed = derive_seed(self.seed, number, int(each))
            result[passes == each] = permuted(positions[passes == each] % self.rows, self.rows, seed)
        return torch.from_numpy(result)


def permuted(positions: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Return the values at these positions in a permutation of 0 to count - 1."""
    half = np.int64(max(1, ((count - 1).bit_length() + 1) // 2))
    mask = np.int64((1 << int(half)) - 1)
    values: NDArray[np.int64] = positions.copy()
    outside = np.ones(len(positions), bool)
    while outside.any():
        low, high = values[outside] & mask, values[outside] >> half
        for number in range(FEISTEL_ROUNDS):
            low, high = high ^ (hash_words(derive_seed(seed, number), low).astype(np.int64) & mask), low
        values[outside] = (high << half) | low
        outside = values >= count
    return values
