"""How many values each rank sends of its part, so that all together send the k largest: by tails that they exchange.

Every rank tells the magnitudes of its 1st, ..., k-th largest value, at few of these counts. So all know about how many
values of each part reach a threshold; the common threshold that k values reach gives every part its quota. Quotas add
up to k exactly, in every step, whatever the scale of the gradients: nothing has to be followed from step to step. What
is approximate is only where the threshold lies within the gap between two counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError

from ..codecs.packing import Bytes
from ..codecs.select import Values

POINTS = 24  # counts of a tail, at most: with them about 0.5 % of the values are others than one threshold would choose

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Tail:
    """How a part's magnitudes end.

    Attributes
    ----------
    held: its values that are not zero, or k where it has more.
    magnitudes: float32 [points], falling: of its c-th largest for each of `counts_told`; 0 where it has no such value.
    """

    held: int
    magnitudes: Values

    @classmethod
    def of(cls, values: Values, counts: Counts) -> Tail:
        """The tail of a part whose k largest values, or all that are not zero, are `values` float32 [held]."""
        falling = np.sort(np.abs(values))[::-1]
        there = counts <= len(falling)
        magnitudes = np.zeros(len(counts), np.float32)
        magnitudes[there] = falling[counts[there] - 1]
        if not there.all() and len(falling):
            magnitudes[np.argmin(there)] = falling[-1]  # the last stands for the first count that is beyond
        return cls(len(falling), magnitudes)

    def pack(self) -> Bytes:
        """uint8 [4 + 4 points]: held, then the magnitudes."""
        return np.concatenate(
            [np.array([self.held], "<u4").view(np.uint8), self.magnitudes.astype("<f4").view(np.uint8)]
        )

    @classmethod
    def unpack(cls, data: Bytes) -> Tail:
        held, magnitudes = int(data[:4].view("<u4")[0]), data[4:].view("<f4").astype(np.float32)
        if (np.diff(magnitudes) > 0).any() or not (magnitudes >= 0).all():
            raise BitlaneError(f"a rank sent magnitudes that do not fall: {magnitudes.tolist()}")
        return cls(held, magnitudes)

    def reached(self, counts: Counts, levels: Values) -> NDArray[np.float64]:
        """float64 [levels]: about how many values reach each level above 0; exact at the magnitudes told."""
        told = self.magnitudes > 0
        there, magnitudes = np.minimum(counts[told], self.held), self.magnitudes[told].astype(np.float64)
        above = np.searchsorted(-magnitudes, -levels.astype(np.float64), side="right")
        found = np.concatenate([[0], there])[above].astype(np.float64)
        between = np.flatnonzero((above > 0) & (above < len(there)))
        high, low = magnitudes[above[between] - 1], magnitudes[above[between]]
        inside = there[above[between]] - there[above[between] - 1] - 1  # the last of them is at `low` itself
        found[between] += inside * (high - levels[between]) / (high - low)
        return found


def reported_counts(wanted: int) -> Counts:
    """int64, rising, at most POINTS: at which counts a tail tells its magnitude: from 1 to k, evenly in ratio."""
    return np.unique(np.rint(np.geomspace(1, max(1, wanted), POINTS)).astype(np.int64))


def quotas(tails: Sequence[Tail], counts: Counts, wanted: int) -> list[int]:
    """How many of its largest values each rank sends: `wanted` in all, or all where there are fewer that are not zero.

    Every rank computes the same of the same tails.
    """
    if sum(tail.held for tail in tails) <= wanted:
        return [tail.held for tail in tails]
    levels = np.unique(np.concatenate([tail.magnitudes[tail.magnitudes > 0] for tail in tails]))[::-1]
    reached = np.array([tail.reached(counts, levels) for tail in tails])
    totals = reached.sum(axis=0)
    place = int(np.argmax(totals >= wanted))
    above = reached[:, place - 1] if place else np.zeros(len(tails))
    part = (wanted - above.sum()) / (totals[place] - above.sum())
    exact = above + part * (reached[:, place] - above)
    whole = np.floor(exact).astype(np.int64)
    left = wanted - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return [int(each) for each in whole]
