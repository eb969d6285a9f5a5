"""Selection rules of MiCRO: which values a rank sends of its partition of the vector.

Both rules approximate one threshold for all partitions, so that the largest values of the vector are sent. The number
of sent values therefore differs between partitions.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Protocol

import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs import tensors
from ..collectives.link import Link
from ..compressor import SavedState
from .quotas import Tail, quotas, reported_counts
from .shares import SharedSelection, tail_count, tail_of


class SelectionRule(Protocol):
    """Selects values of a partition; depends only on the partition and on data that all ranks share."""

    def select(self, values: Tensor, link: Link) -> Tensor:
        """Return ascending indices in `values`, float32 [n]; all ranks call it at the same point."""
        ...

    def update(self, total: int) -> None:
        """Update the rule with the number of indices that all ranks selected in a step."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the rule."""
        ...

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state of `state_dict`."""
        ...


class QuotaSelection(SharedSelection):
    """Selects the largest values up to the quota of the partition; the quotas of all ranks sum to k in every step.

    Those of a segment sum to its share of k.
    """

    def __init__(self, count: int, density: float):
        super().__init__(count)
        self.density = density

    def select(self, values: Tensor, link: Link) -> Tensor:
        self.k, wanted = self.share.counts(self.density)
        near, counts = tensors.largest(values, tail_count(self.k, wanted)), reported_counts(self.k)
        tail = torch.from_numpy(tail_of(values[near], counts).pack()).to(values.device)
        self.tails = [Tail.unpack(each.cpu().numpy()) for each in link.all_gather(tail, [len(tail)] * link.size)]
        own = quotas(self.tails, counts, wanted)[link.rank]
        return near[tensors.largest(values[near], own)]

    def update(self, total: int) -> None:
        """Do nothing: the rule has no state."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: SavedState) -> None:
        """Do nothing: the rule has no state."""


class ThresholdScaling:
    """Selects values above a threshold that is scaled after each step, as in the authors' published code.

    The threshold is common to all ranks and starts at 1 / (2 sqrt(k)). It is multiplied by 1.005 after a step with more
    than 1.1 k indices, by 1.00125 after a step with more than 0.909 k, and otherwise by 0.995.
    """

    def __init__(self, wanted: int):
        self.wanted, self.threshold = wanted, 1 / (2 * sqrt(max(wanted, 1)))

    def select(self, values: Tensor, link: Link) -> Tensor:
        return tensors.select(values, self.threshold)

    def update(self, total: int) -> None:
        ratio = total / max(self.wanted, 1)
        self.threshold *= 1.005 if ratio > 1.1 else 1.00125 if ratio > 0.909 else 0.995

    def state_dict(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def load_state_dict(self, state: SavedState) -> None:
        if "threshold" not in state:
            raise DataError("the saved state has no threshold: it was saved with another controller")
        self.threshold = float(state["threshold"])
