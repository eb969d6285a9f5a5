"""Gradient inversion: find the image with the gradient closest to an observed one (Geiping et al., 2020).

The attack minimizes the objective (LQ-SGD, eq. 4) over images x, by Adam with the signs of its gradient:

    1 - cosine(gradient of x, observed gradient) + smoothness * total variation of x
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .knowledge import Compare
from .victim import Victim

MILESTONES = (3 / 8, 5 / 8, 7 / 8)  # shares of the steps after which the learning rate is divided by 10


@dataclass(frozen=True)
class Attack:
    """The settings of an attack.

    Attributes
    ----------
    steps : int, default: 300
        Steps of Adam from each initial image.
    rate : float, default: 0.1
        Initial learning rate, in units of the pixels.
    smoothness : float or Tensor [k], default: 1e-3
        Weight of the total variation; a tensor has one for each image.
    restarts : int, default: 1
        Number of random initial images, of which the result with the smallest objective is returned.
    seed : int, default: 0
        Seed of the initial images.
    """

    steps: int = 300
    rate: float = 0.1
    smoothness: float | Tensor = 1e-3
    restarts: int = 1
    seed: int = 0


@dataclass(frozen=True)
class PixelFormat:
    """The format of the images, which the attacker knows.

    Attributes
    ----------
    channels, side : int
        Shape of an image.
    least, most : float
        Smallest and largest value of a pixel.
    """

    channels: int
    side: int
    least: float
    most: float


def invert(victim: Victim, compare: Compare, classes: Tensor, pixels: PixelFormat, attack: Attack) -> Tensor:
    """Reconstruct an image for each observed gradient, independently of the others.

    Parameters
    ----------
    victim : Victim
        Computes gradients.
    compare : Compare
        Compares the gradients of candidate images with the observed ones.
    classes : Tensor, int64 [k]
        The classes of the images, known to the attacker.
    pixels : PixelFormat
        The format of the images.
    attack : Attack
        The settings.

    Returns
    -------
    Tensor, float32 [k, channels, side, side]
        The images.
    """
    generator = torch.Generator().manual_seed(attack.seed)
    shape = (len(classes), pixels.channels, pixels.side, pixels.side)
    best, least = torch.zeros(shape), torch.full((len(classes),), torch.inf)
    for _ in range(attack.restarts):
        images = _descend(victim, compare, classes, torch.randn(shape, generator=generator), pixels, attack)
        with torch.no_grad():
            value = objective(victim, compare, classes, images, attack.smoothness)
        better = value < least
        best[better], least[better] = images[better], value[better]
    return best


def objective(victim: Victim, compare: Compare, classes: Tensor, images: Tensor, smoothness: float | Tensor) -> Tensor:
    """Return the objective of the attack, float32 [k], for images float32 [k, channels, side, side]."""
    candidates, observed = compare(victim.gradients(images, classes))
    return 1 - cosine_similarity(candidates, observed, dim=1) + smoothness * total_variation(images)


def total_variation(images: Tensor) -> Tensor:
    """Return the total variation, float32 [k]: mean absolute differences of horizontal plus vertical neighbours."""
    across = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean((1, 2, 3))
    return across + down


def _descend(
    victim: Victim, compare: Compare, classes: Tensor, images: Tensor, pixels: PixelFormat, attack: Attack
) -> Tensor:
    images.clamp_(pixels.least, pixels.most).requires_grad_()
    optimizer = torch.optim.Adam([images], lr=attack.rate)
    milestones = [int(share * attack.steps) for share in MILESTONES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, 0.1)
    for _ in range(attack.steps):
        optimizer.zero_grad()
        objective(victim, compare, classes, images, attack.smoothness).sum().backward()
        assert images.grad is not None
        images.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            images.clamp_(pixels.least, pixels.most)
    return images.detach()
