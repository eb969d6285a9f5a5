"""No compression: what other compressors are compared with, and what a step that cannot be compressed goes by."""

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
    """The reducer of `Uncompressed`; it keeps nothing."""

    def __init__(self, averaging: Averaging):
        self.averaging, self.bits = averaging, 0

    def average(self, vector: Tensor, step: int) -> None:
        self.averaging.average(vector, Float32Quantizer(), step)

    def residual(self) -> Tensor | None:
        return None

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: SavedState) -> None:
        """There is nothing to go on from."""

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        """There is nothing to take over."""


@dataclass(frozen=True)
class Uncompressed:
    """Float32 values, added in order of rank, so that every rank gets the same bytes."""

    codec: CodecId = field(default=CodecId.FLOAT, init=False)
    policy: None = field(default=None, init=False)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> UncompressedReducer:
        return UncompressedReducer(Averaging(Groups.of(vector_length(layout)), link, model, 0, False, device))
