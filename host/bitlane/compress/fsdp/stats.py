"""The statistics of several groups together."""

from __future__ import annotations

from collections.abc import Sequence

from ..ddp.stats import Stats


def summed(groups: Sequence[Stats]) -> Stats:
    """Return the sums over groups that made a step; `steps` is the largest of theirs."""
    result = Stats()
    for each in groups:
        result.add(each)
        result.total.add(each.total)
        result.steps = max(result.steps, each.steps)
        result.skipped += each.skipped
        result.uncompressed += each.uncompressed
    return result
