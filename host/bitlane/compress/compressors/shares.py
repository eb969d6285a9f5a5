"""Shares: how the segments of a gradient divide the number of values that a sparse compressor sends.

A whole gradient sends its k largest values. Segments are averaged one after the other, the first before the last is
known, so that none can know the common threshold of the step. Each has a share of k instead. After a step the tails of
all segments show how many of the k largest values were in each, and the shares move a tenth of the way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..codecs import tensors
from .quotas import Counts, Tail, quotas, reported_counts, reported_positions

FOLLOWED = 0.1  # a step moves the shares by this fraction of the way, because the counts of one step are noisy
LEAST_TAIL = 64  # least length of a tail, so that a share of 0 can grow


def density_count(density: float, count: int) -> int:
    """Return the number of values for a density: rounded, at least 1."""
    return min(count, max(1, round(density * count)))


def tail_count(k: int, own: int) -> int:
    """Return the length of a tail: twice the values that a segment sends, so that its share can grow; at most k."""
    return min(k, max(2 * own, LEAST_TAIL))


def tail_of(values: Tensor, counts: Counts) -> Tail:
    """Return `Tail.of` values on any device. A GPU sorts them by itself, and copies what is reported."""
    if tensors.on_host(values.device):
        return Tail.of(values.numpy(), counts)
    descending = values.abs().sort(descending=True).values
    positions = torch.from_numpy(reported_positions(counts, len(values))).to(values.device)
    return Tail.reported(len(values), descending[positions].cpu().numpy(), counts)


@dataclass(frozen=True)
class Share:
    """A range of the k values that a gradient sends: those from `begin * k` to `end * k`.

    Attributes
    ----------
    total : int
        Number of values of the whole gradient.
    begin, end : float
        From 0 to 1. The shares of all segments adjoin, so that their counts sum to k.
    """

    total: int
    begin: float = 0.0
    end: float = 1.0

    def counts(self, density: float) -> tuple[int, int]:
        """Return k, the number of values that the whole gradient sends, and the number of them in this share."""
        k = density_count(density, self.total)
        return k, round(self.end * k) - round(self.begin * k)


class SharedSelection:
    """Selects the largest values of a gradient, or of a segment as many as its share.

    Parameters
    ----------
    count : int
        Number of values to select from.

    Attributes
    ----------
    share : Share
        That of a whole gradient, until `Shares` sets another.
    k : int
        Number of values that the whole gradient sent in the last step.
    tails : sequence of Tail
        Tails of the last selection: of this rank, or of all ranks if they select together.
    """

    def __init__(self, count: int):
        self.share = Share(count)
        self.k = 0
        self.tails: Sequence[Tail] = ()

    @property
    def is_only_segment(self) -> bool:
        """Whether there are no other segments."""
        return self.share == Share(self.share.total)


class LargestSelection(SharedSelection):
    """Selects the largest values of one rank."""

    def select(self, values: Tensor, density: float) -> Tensor:
        """Return the ascending indices of the selected values, int64; `density` is that of the whole gradient."""
        self.k, own = self.share.counts(density)
        near = tensors.largest(values, tail_count(self.k, own))
        if self.is_only_segment:
            return near
        self.tails = [tail_of(values[near], reported_counts(self.k))]
        return near[tensors.largest(values[near], own)]


class Shares:
    """The shares of all segments; at first those of their lengths.

    Parameters
    ----------
    selections : sequence of SharedSelection
        One of each segment.
    """

    def __init__(self, selections: Sequence[SharedSelection]):
        self._selections = selections
        lengths = np.array([selection.share.total for selection in selections], np.float64)
        self._total = int(lengths.sum())
        self._set(lengths / lengths.sum())

    def follow(self) -> None:
        """Move the shares after a step, in which all segments were averaged."""
        k = self._selections[0].k
        reported = [(number, tail) for number, each in enumerate(self._selections) for tail in each.tails]
        counts = quotas([tail for _, tail in reported], reported_counts(k), k)
        sums = np.bincount([number for number, _ in reported], counts, len(self._selections))
        if sums.any():
            self._set(self._values + FOLLOWED * (sums / sums.sum() - self._values))

    def saved(self) -> list[float]:
        """Return the shares of the next step, one for each segment."""
        return [float(each) for each in self._values]

    def restore(self, saved: Sequence[Sequence[float]]) -> None:
        """Set the mean of the shares of some ranks; if they had other segments, begin anew."""
        if saved and all(len(each) == len(self._selections) for each in saved):
            self._set(np.mean(saved, axis=0))

    def _set(self, values: NDArray[np.float64]) -> None:
        self._values = values
        ends = np.cumsum(values) / values.sum()
        for selection, begin, end in zip(self._selections, [0.0, *ends[:-1]], [*ends[:-1], 1.0], strict=True):
            selection.share = Share(self._total, float(begin), float(end))
