"""Training on MNIST, and how many values were averaged in each of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.collectives.cost_model import LinkModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.compressor import Compressor, Layout, Reducer, State, whole
from bitlane.compress.training.experiment import History, Training, train
from bitlane.compress.training.images import Images, load_images
from bitlane.policies.protocol import BitPolicy


def pictures(count: int) -> Images:
    """The first `count` images of MNIST, and all that are held out."""
    images = load_images("mnist")
    return replace(images, pixels=images.pixels[:count], classes=images.classes[:count])


def watched(training: Training, compressor: Compressor, images: Images) -> tuple[History, NDArray[np.float64]]:
    """A training, and float64 [steps]: the share of all values whose average was not 0."""
    watch = _Watched(compressor, [])
    history = train(training, watch, images)
    return history, np.array(watch.densities)


@dataclass(frozen=True)
class _Watched:
    """A compressor whose rank 0 notes the density of each step."""

    compressor: Compressor
    densities: list[float]

    @property
    def codec(self) -> CodecId:
        return self.compressor.codec

    @property
    def policy(self) -> BitPolicy | None:
        return self.compressor.policy

    def reducer(self, layout: Layout, link: Link, model: LinkModel, device: torch.device) -> Reducer:
        reducer = self.compressor.reducer(layout, link, model, device)
        return _Noting(reducer, self.densities, whole(layout)) if link.rank == 0 else reducer


class _Noting:
    def __init__(self, reducer: Reducer, densities: list[float], count: int):
        self.bits, self.reducer, self.densities, self.count = reducer.bits, reducer, densities, count

    def average(self, vector: Tensor, step: int) -> None:
        self.reducer.average(vector, step)
        self.densities.append(int(vector.count_nonzero()) / self.count)

    def kept(self) -> Tensor | None:
        return self.reducer.kept()

    def state_dict(self) -> dict[str, Any]:
        return self.reducer.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.reducer.load_state_dict(state)

    def take_over(self, states: Sequence[State], kept: Tensor | None) -> None:
        self.reducer.take_over(states, kept)
