"""A compressor for studies: stochastic rounding with one scale for each parameter, as in MQGrad's experiments.

It rounds the gradient of each rank, adds in float32, and rounds the average, all in float32: only the values are those
of codes. Few bits are much less accurate than with the groups of `QSGD`, because a tensor's largest value sets the step
of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.compressor import Layout, Sampler, SavedState
from bitlane.compress.compressors.group_sample import begin_sample
from bitlane.compress.training.experiment import float_average
from bitlane.policies.protocol import BitPolicy
from bitlane.support.hashing import derive_seed


@dataclass(frozen=True)
class OneScale:
    """Uniform levels and one scale for each parameter.

    Parameters
    ----------
    policy : BitPolicy
        Chooses the bits a value, 2 to 8.
    seed : int, default: 0
        Seed of stochastic rounding.
    """

    policy: BitPolicy
    seed: int = 0
    codec: CodecId = field(default=CodecId.LINEAR, init=False)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> OneScaleReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return OneScaleReducer(layout, link, self.policy.start().bits, self.seed)


class OneScaleReducer:
    """The reducer of `OneScale`; it has no state."""

    def __init__(self, layout: Layout, link: Link, bits: int, seed: int):
        self.layout = layout
        self.link = link
        self.bits = bits
        self.seed = seed
        self.widths: NDArray[np.uint8] | None = None  # of the parameters

    def average(self, vector: Tensor, step: int) -> None:
        self._round(vector, derive_seed(self.seed, step, self.link.rank))
        float_average(vector, self.link)
        self._round(vector, derive_seed(self.seed, step, self.link.size))

    def _round(self, vector: Tensor, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        widths = [self.bits] * len(self.layout) if self.widths is None else self.widths.tolist()
        for span, bits in zip(self.layout, widths, strict=True):
            values, most = vector[span.begin : span.end], 2 ** (bits - 1) - 1
            step = float(values.abs().max()) / most
            if step > 0:
                up = torch.rand(len(values), generator=generator)
                values.div_(step).add_(up).floor_().clamp_(-most, most).mul_(step)

    @property
    def group_count(self) -> int:
        """Number of parameters."""
        return len(self.layout)

    def sample(self, vector: Tensor, choices: Sequence[int]) -> Sampler:
        """Begin a sample whose groups are the parameters, as in `GroupReducer`."""
        return begin_sample(vector, Groups(np.array([span.end - span.begin for span in self.layout])), choices, True)

    def residual(self) -> None:
        """Return None: there is no error feedback."""

    def residual_rounding(self) -> None:
        """Return None: there is no residual."""

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: SavedState) -> None:
        """Do nothing: there is no state."""

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        """Do nothing: there is no state."""
