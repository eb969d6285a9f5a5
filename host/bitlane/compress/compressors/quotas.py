"""Quotas of MiCRO: how many values each rank sends of its partition, so that all ranks together send the k largest.

Each rank reports the magnitudes of its c-th largest values for a few counts c between 1 and k, the tail of its
distribution. From all tails each rank estimates how many values of each partition exceed a threshold, and finds the
common threshold that k values exceed. The counts at this threshold are the quotas. They sum to k exactly in every step,
for gradients of any scale and without state. Only the threshold is approximate, between two reported counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError

from ..codecs.packing import Bytes
from ..codecs.select import Values

POINTS = 24  # most counts of a tail; about 0.5 % of the selected values then differ from those of an exact threshold

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Tail:
    """The largest magnitudes of a partition.

    Attributes
    ----------
    available : int
        Values that are not zero, at most k.
    magnitudes : float32 [points], descending
        Magnitude of the c-th largest value for each count c of `reported_counts`; 0 if there are fewer values.
    """

    available: int
    magnitudes: Values

    @classmethod
    def of(cls, values: Values, counts: Counts) -> Tail:
        """Return the tail of a partition from its k largest values that are not zero, float32 [available]."""
        descending = np.sort(np.abs(values))[::-1]
        return cls.reported(len(values), descending[reported_positions(counts, len(values))], counts)

    @classmethod
    def reported(cls, available: int, magnitudes: Values, counts: Counts) -> Tail:
        """Return the tail from the magnitudes at `reported_positions(counts, available)`."""
        padded = np.zeros(len(counts), np.float32)
        padded[: len(magnitudes)] = magnitudes
        return cls(available, padded)

    def pack(self) -> Bytes:
        """Return the tail as bytes, uint8 [4 + 4 points]: `available`, then the magnitudes."""
        return np.concatenate(
            [np.array([self.available], "<u4").view(np.uint8), self.magnitudes.astype("<f4").view(np.uint8)]
        )

    @classmethod
    def unpack(cls, data: Bytes) -> Tail:
        """Return the tail of `pack`; raise BitlaneError if the magnitudes are not descending."""
        available, magnitudes = int(data[:4].view("<u4")[0]), data[4:].view("<f4").astype(np.float32)
        if (np.diff(magnitudes) > 0).any() or not (magnitudes >= 0).all():
            raise BitlaneError(f"a rank sent magnitudes that are not descending: {magnitudes.tolist()}")
        return cls(available, magnitudes)

    def reached(self, counts: Counts, levels: Values) -> NDArray[np.float64]:
        """Estimate how many values reach each level above 0, float64 [levels]; exact at the reported magnitudes."""
        reported = self.magnitudes > 0
        ranks, magnitudes = np.minimum(counts[reported], self.available), self.magnitudes[reported].astype(np.float64)
        above = np.searchsorted(-magnitudes, -levels.astype(np.float64), side="right")
        estimates = np.concatenate([[0], ranks])[above].astype(np.float64)
        between = np.flatnonzero((above > 0) & (above < len(ranks)))
        high, low = magnitudes[above[between] - 1], magnitudes[above[between]]
        inside = ranks[above[between]] - ranks[above[between] - 1] - 1  # without the value at `low` itself
        estimates[between] += inside * (high - levels[between]) / (high - low)
        return estimates


def reported_counts(wanted: int) -> Counts:
    """Return the counts at which a tail reports its magnitude: int64, ascending, at most POINTS, geometric to k."""
    return np.unique(np.rint(np.geomspace(1, max(1, wanted), POINTS)).astype(np.int64))


def reported_positions(counts: Counts, available: int) -> Counts:
    """Return which of the magnitudes, the largest first, a tail reports: those at the counts, int64, ascending.

    If there are fewer than the last count, the smallest one stands for the next larger count.
    """
    reached = int(np.searchsorted(counts, available, side="right"))
    return np.minimum(counts, available)[: reached + 1 if available else 0] - 1


def quotas(tails: Sequence[Tail], counts: Counts, wanted: int) -> list[int]:
    """Return how many of its largest values each rank sends; all ranks compute the same from the same tails.

    Parameters
    ----------
    tails : sequence of Tail
        The tails of all ranks.
    counts : int64 [points]
        Their counts, from `reported_counts`.
    wanted : int
        Sum of the quotas; fewer if fewer values are not zero.
    """
    if sum(tail.available for tail in tails) <= wanted:
        return [tail.available for tail in tails]
    levels = np.unique(np.concatenate([tail.magnitudes[tail.magnitudes > 0] for tail in tails]))[::-1]
    reached = np.array([tail.reached(counts, levels) for tail in tails])
    totals = reached.sum(axis=0)
    index = int(np.argmax(totals >= wanted))
    above = reached[:, index - 1] if index else np.zeros(len(tails))
    fraction = (wanted - above.sum()) / (totals[index] - above.sum())
    exact = above + fraction * (reached[:, index] - above)
    rounded = np.floor(exact).astype(np.int64)
    missing = wanted - int(rounded.sum())
    rounded[np.argsort(rounded - exact, kind="stable")[:missing]] += 1
    return [int(each) for each in rounded]
