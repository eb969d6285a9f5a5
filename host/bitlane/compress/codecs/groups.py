"""Groups of values that share a scale, and the shards in which ranks average a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Bits = int | NDArray[np.uint8]
"""Bits a value: the same in all groups, or uint8 [groups]."""

MIN_SCALE = np.float32(2.0**-100)  # a group with a smaller scale is encoded as zeros
GROUP = 512  # values in a full group: a 4-byte scale costs 1/16 bit a value


@dataclass(frozen=True)
class Groups:
    """Consecutive groups of a vector.

    Attributes
    ----------
    lengths : int64 [groups]
        Values in each group, 1 to `GROUP`.
    widths : uint8 [groups], or None
        Bits a value of each group, if they differ.

    Examples
    --------
    >>> Groups.of(600, 3).lengths.tolist()
    [512, 88, 3]
    """

    lengths: NDArray[np.int64]
    widths: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, *runs: int) -> Groups:
        """Cut runs of the given lengths into groups; no group spans two runs, such as two columns of a matrix."""
        cut = [[GROUP] * (run // GROUP) + [run % GROUP] * (run % GROUP > 0) for run in runs]
        return cls(np.array([length for lengths in cut for length in lengths], np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def count(self) -> int:
        """Number of values in all groups."""
        return int(self.lengths.sum())

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First index of each group, then the end of the last: int64 [groups + 1]."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])

    @cached_property
    def are_full(self) -> bool:
        """Whether all groups but the last are full, as those of a single run are."""
        return bool((self.lengths[:-1] == GROUP).all())

    def code_bytes(self, bits: Bits) -> NDArray[np.int64]:
        """Return the bytes of each group's codes, int64 [groups]; each group starts at a byte boundary."""
        sizes: NDArray[np.int64] = (self.lengths * bits + 7) // 8
        return sizes

    def all_code_bytes(self, bits: Bits) -> int:
        """Return the bytes of all groups' codes, for 0 to 8 bits."""
        if bits is self.widths:
            return self._own_code_bytes
        return int(self.code_bytes(bits).sum()) if isinstance(bits, np.ndarray) else self._all_code_bytes[bits]

    @cached_property
    def _own_code_bytes(self) -> int:
        return 0 if self.widths is None else int(self.code_bytes(self.widths).sum())

    def slice(self, first: int, last: int) -> Groups:
        """Return the groups from `first` to `last`, excluding `last`."""
        return Groups(self.lengths[first:last], None if self.widths is None else self.widths[first:last])

    @cached_property
    def _all_code_bytes(self) -> list[int]:
        return [int(self.code_bytes(bits).sum()) for bits in range(9)]


@dataclass(frozen=True)
class GroupShard:
    """Consecutive groups of a vector that one rank averages: values `begin` up to, not including, `end`."""

    begin: int
    end: int
    groups: Groups


def shard_groups(groups: Groups, ranks: int) -> Sequence[GroupShard]:
    """Return one shard per rank, in order, of about equal size: values, or bits if groups have different widths.

    Some are empty if there are few groups.
    """
    starts = groups.starts
    sizes = starts if groups.widths is None else np.concatenate([[0], np.cumsum(groups.lengths * groups.widths)])
    cuts = np.searchsorted(sizes, np.arange(ranks + 1) * (sizes[-1] / ranks))
    cuts[0], cuts[-1] = 0, len(groups)
    return [
        GroupShard(int(starts[first]), int(starts[last]), groups.slice(first, last))
        for first, last in pairwise(cuts.tolist())
    ]
