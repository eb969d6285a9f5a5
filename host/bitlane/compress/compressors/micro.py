"""MiCRO: every rank chooses from a part of the vector of its own, so that no place is chosen twice.

Rank i has part (i + step) modulo the ranks: it chooses where what it holds, gradient and error, is large, and tells all
the places. They tell it what they hold there; it adds up in float32, in order of rank, and sends the averages to all.
With k places in all, a rank sends its places to (n - 1) others, and about 2 (n - 1) / n 4 k bytes of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs import rice
from ..codecs.select import Indices, Values
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length
from .memory import StateVectors, host_array
from .selection import QuotaSelection, SelectionRule, ThresholdScaling
from .topk import check_density, density_count


class MiCROReducer:
    """The reducer of `MiCRO`.

    Attributes
    ----------
    counts: places that each rank chose in the last step.
    index_bytes: of the codes of this rank's own places, in the last step; they went to each of the others.
    """

    def __init__(self, count: int, settings: MiCRO, link: Link, device: torch.device):
        self.bits = 0
        self.link, self.memory = link, StateVectors(count, device, "residual")
        wanted = density_count(settings.density, count)
        self.choice: SelectionRule = (
            QuotaSelection(wanted) if settings.controller == "quotas" else ThresholdScaling(wanted)
        )
        self.cuts = [count * part // link.size for part in range(link.size + 1)]
        self.counts: list[int] = []
        self.index_bytes = 0

    def average(self, vector: Tensor, step: int) -> None:
        held = self.memory.array("residual")
        with host_array(vector) as average:
            held += average
            places = self._places(held, step)
            self.counts = [len(each) for each in places]
            self.choice.update(sum(self.counts))
            average[...] = 0
            for each, mean in zip(places, self._means(held, places), strict=True):
                average[each] = mean
                held[each] = 0

    def _places(self, held: Values, step: int) -> list[Indices]:
        """The places that each rank has chosen."""
        parts = [(rank + step) % self.link.size for rank in range(self.link.size)]
        begins = [self.cuts[part] for part in parts]
        sizes = [self.cuts[part + 1] - self.cuts[part] for part in parts]
        rank = self.link.rank
        own = self.choice.select(held[begins[rank] : begins[rank] + sizes[rank]], self.link)
        codes = torch.from_numpy(rice.encode(own, sizes[rank]))
        self.index_bytes = len(codes)
        gathered = self.link.all_gather(codes, self.link.gather_lengths(len(codes)))
        return [
            begin + rice.decode(each.cpu().numpy(), n) for begin, each, n in zip(begins, gathered, sizes, strict=True)
        ]

    def _means(self, held: Values, places: Sequence[Indices]) -> list[Values]:
        """The averages at each rank's places, computed by that rank."""
        own = 4 * len(places[self.link.rank])
        answers = [_tensor(held[each]) for each in places]
        values = [_values(each) for each in self.link.exchange(answers, [own] * self.link.size)]
        mean = values[0].copy()
        for each in values[1:]:
            mean += each
        mean *= np.float32(1 / self.link.size)
        return [_values(each) for each in self.link.all_gather(_tensor(mean), [4 * len(each) for each in places])]

    def residual(self) -> Tensor:
        return self.memory.on_device("residual")

    def state_dict(self) -> dict[str, Any]:
        return {**self.memory.state_dict(), **self.choice.state_dict()}

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)
        self.choice.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        assert kept is not None
        self.memory.load_state_dict({"residual": kept})
        self.choice.load_state_dict(states[0])


@dataclass(frozen=True)
class MiCRO:
    """Exclusive, cyclic parts with error feedback (Yoon and Oh, 2023, MiCRO, algorithm 1).

    Parameters
    ----------
    density: k, the places of all ranks together, as a share of all values.
    controller: "quotas" has k places in every step, whatever the gradients, and a round of at most 100 bytes to each
        rank more; "published" scales a threshold as the authors' code does, and drifts.
    """

    density: float = 0.01
    controller: Literal["quotas", "published"] = "quotas"
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_density(self.density)
        if self.controller not in ("quotas", "published"):
            raise DataError(f"controller={self.controller!r}: choose 'quotas' or 'published'")

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> MiCROReducer:
        return MiCROReducer(vector_length(layout), self, link, device)


def _tensor(values: Values) -> Tensor:
    return torch.from_numpy(values.astype("<f4").view(np.uint8))


def _values(data: Tensor) -> Values:
    values: Values = data.cpu().numpy().view("<f4")
    return values
