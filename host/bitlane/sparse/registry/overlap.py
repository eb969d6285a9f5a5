"""How many held-out rows are rows that a training has learned, apart from rows that are equal by chance.

Rows of few columns are often equal: a row that the training has seen once will come again. How often, its sample tells
(Good, "The population frequencies of species", 1953; Good and Toulmin, 1956). Let held-out rows be drawn as the learned
ones were, r of them for each observed row, and let f[c] rows have been seen c times. Then

- about r (c + 1) f[c + 1] of the rows that were seen c times come among them,
- and at least r f[1] - r^2 f[2] rows that were never seen.

Copies show as more of the former, or as less of the latter. Rows that were seen often prove nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bitlane.sparse.parameters.row_digests import Digests
from bitlane.sparse.parameters.row_sample import MOST_SEEN, RowSample

ODDS = 1e-6  # of an excess by chance, which is not told
HALF = 0.5  # of the new rows: held-out rows of a popular kind may lack some, too


@dataclass(frozen=True)
class RowOverlap:
    """What a sample says of held-out rows.

    Attributes
    ----------
    compared : int
        Distinct held-out rows that can be looked up in the sample.
    found : int
        Those that are in it.
    share : float
        Of all held-out rows, about so many were learned, without those that are equal by chance. 0 unless the excess is
        more than chance gives in one of a million cases.
    can_tell : bool
        Whether it would be noticed if all held-out rows were learned.
    """

    compared: int
    found: int
    share: float
    can_tell: bool


def overlap_of(sample: RowSample, digests: Digests, rows: int) -> RowOverlap:
    """Compare held-out rows with a sample of learned ones.

    Parameters
    ----------
    sample : RowSample
    digests : uint64 [n]
        Those of the held-out rows that do not exceed the bound of the sample.
    rows : int
        Held-out rows.
    """
    kept, counts, _ = sample.kept()
    distinct = np.unique(digests)
    seen = np.bincount(counts, minlength=MOST_SEEN + 1)
    hits = np.bincount(counts[np.isin(kept, distinct)], minlength=MOST_SEEN + 1)
    ratio, unseen = rows / max(1, sample.observed), len(distinct) - int(hits.sum())
    excess, can_tell = 0.0, False
    for count in range(1, MOST_SEEN - 1):
        more, factor = int(seen[count + 1]), ratio * (count + 1)
        if _is_excess(int(hits[count]), more, factor):
            excess += hits[count] - factor * more
        copies = int(seen[count] * len(distinct) / max(1, len(kept)))
        can_tell |= _is_excess(copies, more, factor)
    share = excess / max(1, len(distinct)) * sample.rows / max(1, sample.observed)
    once, new = int(seen[1]), _least_new(ratio, int(seen[1]), int(seen[2]))
    if _is_excess(once, unseen, once / max(new, 1e-9)) and unseen < HALF * new:
        share = max(share, 1 - unseen / new)
    can_tell |= _is_excess(once, 0, once / max(new, 1e-9))
    return RowOverlap(len(distinct), int(hits.sum()), min(1.0, share), can_tell)


def _least_new(ratio: float, once: int, twice: int) -> float:
    """Return how many rows that were never seen one expects at least: more held-out rows have no fewer of them."""
    twice += math.ceil(3 * math.sqrt(twice + 1))  # a few rows say little of how many there might be
    ratio = min(ratio, once / (2 * twice))
    return ratio * once - ratio * ratio * twice


def _is_excess(count: int, less: int, ratio: float) -> bool:
    """Return whether a count exceeds `ratio` times another by more than chance gives in one of a million cases.

    Both counts are of independent rows. The bound is Chernoff's on the share of the first one among both.
    """
    total = count + less
    chance, share = ratio / (1 + ratio), count / max(1, total)
    if share <= chance:
        return False
    divergence = share * math.log(share / chance)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - chance))
    return total * divergence > -math.log(ODDS)
