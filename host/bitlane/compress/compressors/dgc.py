"""Deep gradient compression (Lin et al., 2018): top-k sparsification with momentum correction.

    g = min(1, clip / sqrt(ranks) / |g|) g        local gradient clipping (section 3.2)
    u = momentum u + g,   v = v + u               momentum correction (equation 5): v accumulates the velocities
    send v where |v| is among the k largest;      there, u = v = 0: momentum factor masking (section 3.2)

The ranks average velocities, so the optimizer must have no momentum. The first steps send more values (warm-up, section
3.3). Every velocity is sent or remains in v. Masking discards values of u, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number

from ..codecs.sparse import FLOAT
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length
from .chunks import ChunkSelection
from .coding import all_gather_average, take
from .memory import StateVectors
from .settings import checked_density, checked_flag, checked_value_bits, replace_setting
from .shares import LargestSelection

BLOCK = 2**18  # values that are converted to float64 at a time
FIRST_DENSITY = 0.25  # of the first warm-up stage; each further stage has a quarter of the previous density


class DGCReducer:
    """The reducer of `DGC`."""

    def __init__(self, count: int, dgc: DGC, link: Link, device: torch.device):
        self.bits = 0
        self.settings, self.link = dgc, link
        self.selection = ChunkSelection() if dgc.chunked else LargestSelection(count)
        self.memory = StateVectors(count, device, "momentum", "velocity")

    def average(self, vector: Tensor, step: int) -> None:
        momentum, velocity = self.memory.tensors["momentum"], self.memory.tensors["velocity"]
        self._clip(vector)
        momentum.mul_(self.settings.momentum).add_(vector)
        velocity.add_(momentum)
        indices = self.selection.select(velocity, self.settings.density_at(step))
        body = take(indices, velocity, momentum, bits=self.settings.value_bits)
        all_gather_average(self.link, body, vector, self.settings.value_bits)

    def _clip(self, gradient: Tensor) -> None:
        if self.settings.clip is not None:
            norm = sqrt(sum(map(_sum_of_squares, gradient.split(BLOCK))))
            limit = self.settings.clip / sqrt(self.link.size)
            if norm > limit:
                gradient.mul_(limit / norm)

    def residual(self) -> None:
        """Return None: the accumulated velocities are not gradients."""

    def residual_rounding(self) -> None:
        """Return None: there is no residual."""

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return self.memory.state_dict(memory)

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        self.memory.load_mean(states)


def _sum_of_squares(values: Tensor) -> float:
    doubles = values.double()
    return float(doubles @ doubles)


@dataclass(frozen=True)
class DGC:
    """Deep gradient compression: top-k with momentum correction (Lin et al., 2018).

    Use it with an optimizer without momentum.

    Parameters
    ----------
    density : float, default: 0.001
        Share of the values that each rank sends after the warm-up.
    momentum : float, default: 0.9
        Momentum of the velocities, from 0 to below 1; 0 is plain top-k.
    clip : float or None, default: None
        Limit of the norm of the average gradient; each rank clips its gradient to clip / sqrt(ranks). None disables
        clipping.
    warmup : int, default: 0
        Steps of each warm-up stage; 0 disables the warm-up. The stages have the densities 1/4, 1/16, 1/64 and so on
        while they are above `density`. The paper uses one epoch per stage.
    value_bits, chunked
        As in `TopK`; what rounding loses remains in the velocity.

    Examples
    --------
    >>> from bitlane.compress import DGC
    >>> compressor = DGC(density=0.01, warmup=100)
    >>> [compressor.density_at(step) for step in (0, 100, 200, 300)]
    [0.25, 0.0625, 0.015625, 0.01]
    """

    density: float = 0.001
    momentum: float = 0.9
    clip: float | None = None
    warmup: int = 0
    value_bits: int = FLOAT
    chunked: bool = False
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)
    whole_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= as_number("momentum", self.momentum) < 1:
            raise DataError(f"momentum must be from 0 to below 1; got {self.momentum}")
        if self.clip is not None and not as_number("clip", self.clip) > 0:
            raise DataError(f"clip must be a norm above 0, or None for no clipping; got {self.clip}")
        warmup = as_integer("warmup", self.warmup, 0)
        bits, chunked = checked_value_bits(self.value_bits), checked_flag("chunked", self.chunked)
        replace_setting(self, density=checked_density(self.density), warmup=warmup, value_bits=bits, chunked=chunked)

    def density_at(self, step: int) -> float:
        """Return the share of values that each rank sends in a step; steps count from 0."""
        return max(self.density, FIRST_DENSITY ** (step // self.warmup + 1)) if self.warmup else self.density

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DGCReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        return DGCReducer(vector_length(layout), self, link, device)
