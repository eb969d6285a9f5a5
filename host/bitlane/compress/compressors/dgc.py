"""Deep gradient compression (Lin et al., 2018): top-k that has the momentum where it is corrected for what waits.

    g = min(1, clip / sqrt(ranks) / |g|) g        local gradient clipping (section 3.2)
    u = momentum u + g,   v = v + u               momentum correction (equation 5): v waits, and not g
    send v where |v| is among the k largest;      there, u = v = 0: momentum factor masking (section 3.2)

What is averaged are velocities: the optimiser is to have no momentum of its own. The first steps send more (warm-up,
section 3.3). All velocities that came in are sent, or wait in v; what masking takes from u is gone, as it is meant to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs.largest import largest
from ..codecs.select import Values
from ..codecs.wire import CodecId
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, SavedState, vector_length
from .memory import StateVectors, host_array
from .topk import all_gather_average, check_density, density_count

FIRST = 0.25  # density of the warm-up's first stage; each of the following has a quarter of the one before


class DGCReducer:
    """The reducer of `DGC`."""

    def __init__(self, count: int, settings: DGC, link: Link, device: torch.device):
        self.bits = 0
        self.settings, self.link = settings, link
        self.memory = StateVectors(count, device, "momentum", "velocity")

    def average(self, vector: Tensor, step: int) -> None:
        momentum, velocity = self.memory.array("momentum"), self.memory.array("velocity")
        with host_array(vector) as gradient:
            self._clip(gradient)
            momentum *= np.float32(self.settings.momentum)
            momentum += gradient
            velocity += momentum
            places = largest(velocity, density_count(self.settings.density_at(step), len(velocity)))
            chosen = velocity[places]
            velocity[places] = 0
            momentum[places] = 0
            all_gather_average(self.link, places, chosen, gradient)

    def _clip(self, gradient: Values) -> None:
        if self.settings.clip is not None:
            norm = float(np.linalg.norm(gradient.astype(np.float64)))
            most = self.settings.clip / sqrt(self.link.size)
            if norm > most:
                gradient *= np.float32(most / norm)

    def residual(self) -> None:
        """None: velocities came in, and not gradients."""

    def state_dict(self) -> dict[str, Any]:
        return self.memory.state_dict()

    def load_state_dict(self, state: SavedState) -> None:
        self.memory.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], kept: Tensor | None) -> None:
        self.memory.load_mean(states)


@dataclass(frozen=True)
class DGC:
    """Deep gradient compression (Lin et al., 2018). Give the optimiser no momentum: this has it.

    Parameters
    ----------
    density: share of the values that a rank sends, after the warm-up.
    momentum: of the velocities; 0 is plain top-k.
    clip: the norm of the average gradient that is not to be exceeded; a rank's may have 1 / sqrt(ranks) of it. None
        for no clipping.
    warmup: steps of each stage of the warm-up, with densities 1/4, 1/16, 1/64 and so on, while they are above
        `density`; 0 for none. The paper has an epoch a stage.
    """

    density: float = 0.001
    momentum: float = 0.9
    clip: float | None = None
    warmup: int = 0
    codec: CodecId = field(default=CodecId.SPARSE, init=False)
    policy: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_density(self.density)
        if not 0 <= self.momentum < 1:
            raise DataError(f"momentum={self.momentum}: from 0 to below 1")
        if self.clip is not None and not self.clip > 0:
            raise DataError(f"clip={self.clip}: a norm above 0, or None for no clipping")
        if self.warmup < 0:
            raise DataError(f"warmup={self.warmup}: steps of each stage, or 0 for no warm-up")

    def density_at(self, step: int) -> float:
        """The share of values that a rank sends in step 0, 1, ..."""
        return max(self.density, FIRST ** (step // self.warmup + 1)) if self.warmup else self.density

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> DGCReducer:
        return DGCReducer(vector_length(layout), self, link, device)
