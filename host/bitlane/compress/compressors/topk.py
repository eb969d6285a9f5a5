"""The largest magnitudes of each rank's vector, gathered by all: top-k sparsification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs import sparse
from ..codecs.largest import largest
from ..codecs.select import Indices, Values
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length
from .memory import StateVectors, host_array


def check_density(density: float) -> None:
    """DataError for a share of values that is none."""
    if not 0 < density <= 1:
        raise DataError(f"density={density}: the share of values that are sent is above 0, and at most 1")


def density_count(density: float, count: int) -> int:
    """How many of `count` values a density is: rounded, and one at least."""
    return min(count, max(1, round(density * count)))


def all_gather_average(link: Link, places: Indices, values: Values, out: Values) -> None:
    """Make `out` float32 [n] the average of all ranks' sparse vectors, zero where none has a value.

    Every rank sends its payload to all, and adds all of them up in float32, in order of rank: the same bytes on all.
    """
    body = torch.from_numpy(sparse.encode(places, values, len(out)))
    bodies = link.all_gather(body, link.gather_lengths(len(body)))
    out[...] = 0
    for each in bodies:
        theirs, found = sparse.decode(each.cpu().numpy(), len(out))
        out[theirs] += found
    out *= np.float32(1 / link.size)


class TopKReducer:
    """The reducer of `TopK`. Without feedback it keeps nothing."""

    def __init__(self, count: int, settings: TopK, link: Link, device: torch.device):
        self.bits = 0
        self.wanted, self.link, self.feedback = density_count(settings.density, count), link, settings.error_feedback
        self.memory = StateVectors(count, device, *(["residual"] if self.feedback else []))

    def average(self, vector: Tensor, step: int) -> None:
        with host_array(vector) as average:
            held = average
            if self.feedback:
                held = self.memory.array("residual")
                held += average
            places = largest(held, self.wanted)
            chosen = held[places]
            held[places] = 0
            all_gather_average(self.link, places, chosen, average)

    def residual(self) -> Tensor | None:
        return self.memory.on_device("residual") if self.feedback else None

    def state_dict(self) -> dict[str, Any]:
        return self.memory.state_dict()

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        if kept is not None:
            self.memory.load_state_dict({"residual": kept})


@dataclass(frozen=True)
class TopK:
    """The k largest magnitudes of the whole vector, exactly, whole, with their places (Aji and Heafield, 2017).

    Ranks choose different places: with n of them up to n k values are averaged in a step.

    Parameters
    ----------
    density: k, as a share of all values.
    error_feedback: keep what is not sent, and add it the next time.
    """

    density: float = 0.01
    error_feedback: bool = True
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_density(self.density)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> TopKReducer:
        return TopKReducer(vector_length(layout), self, link, device)
