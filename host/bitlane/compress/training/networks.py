"""Networks for measuring compressors, and those of users."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import nn

from bitlane.errors import DataError

from ..seeded import seeded
from .user_networks import Factory, user_network

CLASSES = 10


def network(name: str, channels: int, side: int, seed: int) -> nn.Module:
    """Return a network for images [channels, side, side] in ten classes.

    No layer of `NETWORKS` uses statistics of the batch, so that ranks do not have to share any. The global random
    state of torch does not change.

    Parameters
    ----------
    name : str
        A name of `NETWORKS`, or a user's network as `user_network` takes it.
    channels, side : int
        Shape of an image.
    seed : int
        Seed of the initial weights.

    Raises
    ------
    DataError
        If the name is unknown, or as `user_network`.
    """
    build = network_factory(name)
    with seeded(seed):
        return build(channels, side)


def network_factory(name: str) -> Factory:
    """Return what builds the network of this name; raise DataError as `network`."""
    if ":" in name:
        return user_network(name, CLASSES)
    if name not in NETWORKS:
        raise DataError(f"unknown network {name!r}: choose one of {', '.join(NETWORKS)}, or your own FILE.py:FUNCTION")
    return NETWORKS[name]


def _perceptron(channels: int, side: int) -> nn.Module:
    """Build a perceptron with two hidden layers of 256 units."""
    sizes = (channels * side * side, 256, 256)
    hidden = [layer for m, n in pairwise(sizes) for layer in (nn.Linear(m, n), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(sizes[-1], CLASSES))


def _convolutional(channels: int, side: int) -> nn.Module:
    """Build LeNet's architecture: two 5 x 5 convolutions with pooling, and two dense layers."""
    small = side // 4
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * small * small, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    )


def _wide(channels: int, side: int) -> nn.Module:
    """Build MQGrad's network at a third of its width: two convolutions, and dense layers with nearly all weights."""
    small = side // 4
    return nn.Sequential(
        *(nn.Conv2d(channels, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * small * small, 768), nn.ReLU(), nn.Linear(768, 1280), nn.ReLU()),
        nn.Linear(1280, CLASSES),
    )


class _Block(nn.Module):
    """A residual block: two convolutions with a shortcut (He et al., 2016)."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.around: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.GroupNorm(4, outside))
        self.through = nn.Sequential(
            *(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.GroupNorm(4, outside), nn.ReLU()),
            *(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.GroupNorm(4, outside)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.through(x) + self.around(x))


def _resnet(channels: int, side: int, width: int = 16, stages: int = 4, blocks: int = 2) -> nn.Module:
    """Build a residual network with group normalization; each stage halves the side and doubles the width."""
    body: list[nn.Module] = []
    inside = width
    for stage in range(stages):
        outside = width << stage
        for block in range(blocks):
            body.append(_Block(inside, outside, 2 if stage and not block else 1))
            inside = outside
    first = (nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.GroupNorm(4, width), nn.ReLU())
    return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES))


NETWORKS: dict[str, Factory] = {
    "perceptron": _perceptron,
    "convolutional": _convolutional,
    "wide": _wide,
    "resnet": _resnet,  # ResNet-18 at a quarter of its width
    "resnet8": partial(_resnet, stages=3, blocks=1),  # with as many layers
}
