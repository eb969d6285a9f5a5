"""How many values MiCRO sends: two ways in which a rank chooses from its part of the vector.

One threshold is meant for all parts, whichever rank holds the larger gradients and whichever layer a part is from: so
the values that go out are the largest of all, and one part may have more of them than another.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Protocol

import torch

from bitlane.errors import DataError

from ..codecs.largest import largest
from ..codecs.select import Indices, Values, select
from ..collectives.link import Link
from ..compressor import SavedState
from .quotas import Tail, quotas, reported_counts


class SelectionRule(Protocol):
    """How a rank chooses from its part. What it does depends on nothing but what all ranks know, and its part."""

    def select(self, values: Values, link: Link) -> Indices:
        """Rising places in `values` float32 [part]; every rank calls it at the same point."""
        ...

    def update(self, total: int) -> None:
        """Told after each step how many places all ranks have chosen."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: SavedState) -> None: ...


class QuotaSelection:
    """As many as the part's quota, the largest: k in all ranks together, in every step."""

    def __init__(self, wanted: int):
        self.wanted, self.counts = wanted, reported_counts(wanted)

    def select(self, values: Values, link: Link) -> Indices:
        near = largest(values, self.wanted)
        tail = torch.from_numpy(Tail.of(values[near], self.counts).pack())
        tails = [Tail.unpack(each.cpu().numpy()) for each in link.all_gather(tail, [len(tail)] * link.size)]
        own = quotas(tails, self.counts, self.wanted)[link.rank]
        return near[largest(values[near], own)]

    def update(self, total: int) -> None:
        """Nothing to follow."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: SavedState) -> None:
        """Nothing is kept."""


class ThresholdScaling:
    """The authors' threshold scaling: one threshold for all ranks, a factor after each step.

    It begins with 1 / (2 sqrt(k)), and becomes 1.005 times as high after a step of more than 1.1 k places, 1.00125
    times after one of more than 0.909 k, else 0.995 times: so their published code has it.
    """

    def __init__(self, wanted: int):
        self.wanted, self.threshold = wanted, 1 / (2 * sqrt(max(wanted, 1)))

    def select(self, values: Values, link: Link) -> Indices:
        return select(values, self.threshold)[0]

    def update(self, total: int) -> None:
        ratio = total / max(self.wanted, 1)
        self.threshold *= 1.005 if ratio > 1.1 else 1.00125 if ratio > 0.909 else 0.995

    def state_dict(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def load_state_dict(self, state: SavedState) -> None:
        if "threshold" not in state:
            raise DataError("the saved state has no threshold: it is of another controller")
        self.threshold = float(state["threshold"])
