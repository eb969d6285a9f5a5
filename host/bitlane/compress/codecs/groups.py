"""Groups: runs of values that share a scale, and who of the ranks averages which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

TINY = np.float32(2.0**-100)  # a group whose scale is less is sent as zeros
GROUP = 512  # values a group has at most: 4 bytes of scale are 1/16 bit a value


@dataclass(frozen=True)
class Groups:
    """The consecutive groups of a vector. `lengths` int64 [groups], each from 1 to GROUP."""

    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, *runs: int) -> Groups:
        """Groups of a vector made of runs of so many values; none spans two runs, such as columns of matrices."""
        cut = [[GROUP] * (run // GROUP) + [run % GROUP] * (run % GROUP > 0) for run in runs]
        return cls(np.array([length for lengths in cut for length in lengths], np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def count(self) -> int:
        """Values in all."""
        return int(self.lengths.sum())

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """int64 [groups + 1]: where each begins, and the end of the last."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    def code_bytes(self, bits: int) -> NDArray[np.int64]:
        """int64 [groups]: bytes of each group's codes; a group begins with a byte of its own."""
        sizes: NDArray[np.int64] = (self.lengths * bits + 7) // 8
        return sizes

    def all_code_bytes(self, bits: int) -> int:
        """Bytes of all groups' codes, of 0 to 8 bits."""
        return self._all_code_bytes[bits]

    @cached_property
    def _all_code_bytes(self) -> list[int]:
        return [int(self.code_bytes(bits).sum()) for bits in range(9)]


@dataclass(frozen=True)
class Part:
    """Some consecutive groups of a vector: the values `begin` to `end`, the latter excluded."""

    begin: int
    end: int
    groups: Groups


def owned(groups: Groups, ranks: int) -> Sequence[Part]:
    """One part a rank, in order, of about as many values each; some are empty where there are few groups."""
    starts = groups.starts
    cuts = np.searchsorted(starts, np.arange(ranks + 1) * (groups.count / ranks))
    cuts[0], cuts[-1] = 0, len(groups)
    return [
        Part(int(starts[first]), int(starts[last]), Groups(groups.lengths[first:last]))
        for first, last in pairwise(cuts.tolist())
    ]
