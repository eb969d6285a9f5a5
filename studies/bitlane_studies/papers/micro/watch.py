"""Train on MNIST, and record the density of the averages in each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.compressor import Compressor, Layout, Reducer, SavedState, vector_length
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images, load_images
from bitlane.policies.protocol import BitPolicy


def first_images(count: int) -> Images:
    """Return the first `count` training images and all held-out images of MNIST."""
    images = load_images("mnist")
    return replace(images, pixels=images.pixels[:count], classes=images.classes[:count])


def train_and_watch_density(
    training: NetworkTraining, compressor: Compressor, images: Images
) -> tuple[TrainingHistory, NDArray[np.float64]]:
    """Train; return the history, and the share of nonzero averages in each step, float64 [steps]."""
    watch = _WatchedCompressor(compressor, [])
    history = train(training, watch, images)
    return history, np.array(watch.densities)


@dataclass(frozen=True)
class _WatchedCompressor:
    """A compressor whose rank 0 records the density of each step."""

    compressor: Compressor
    densities: list[float]

    @property
    def codec(self) -> CodecId:
        return self.compressor.codec

    @property
    def policy(self) -> BitPolicy | None:
        return self.compressor.policy

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> Reducer:
        reducer = self.compressor.reducer(layout, link, model, device)
        return _WatchedReducer(reducer, self.densities, vector_length(layout)) if link.rank == 0 else reducer


class _WatchedReducer:
    def __init__(self, reducer: Reducer, densities: list[float], count: int):
        self.bits = reducer.bits
        self.reducer = reducer
        self.densities = densities
        self.count = count

    def average(self, vector: Tensor, step: int) -> None:
        self.reducer.average(vector, step)
        self.densities.append(int(vector.count_nonzero()) / self.count)

    def residual(self) -> Tensor | None:
        return self.reducer.residual()

    def residual_rounding(self) -> Tensor | None:
        return self.reducer.residual_rounding()

    def state_dict(self, memory: SavedState | None = None) -> dict[str, Any]:
        return self.reducer.state_dict(memory)

    def load_state_dict(self, state: SavedState) -> None:
        self.reducer.load_state_dict(state)

    def reshard(self, states: Sequence[SavedState], residual: Tensor | None) -> None:
        self.reducer.reshard(states, residual)
