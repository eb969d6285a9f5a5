"""No compression: the baseline, and the fallback for steps that cannot be compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..codecs.groups import Groups
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length
from .factors import Float32Quantizer


class UncompressedReducer:
    """The reducer of `Uncompressed`; stateless."""

    def __init__(self, averaging: Averaging):
        self.averaging, self.bits = averaging, 0

    def average(self, vector: Tensor, step: int) -> None:
        self.averaging.average(vector, Float32Quantizer(), step)

    def residual(self) -> Tensor | None:
        return None

    def residual_rounding(self) -> None:
        """Return None: there is no residual."""

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: SavedState) -> None:
        """Do nothing: the reducer has no state."""

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        """Do nothing: the reducer has no state."""


@dataclass(frozen=True)
class Uncompressed:
    """Average float32 values, summed in the order of ranks so that all ranks get identical bytes."""

    codec: CodecId = field(default=CodecId.FLOAT, init=False)
    policy: None = field(default=None, init=False)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> UncompressedReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return UncompressedReducer(Averaging(Groups.of(vector_length(layout)), link, model, 0, False, device))
