"""Gradient inversion: the image whose gradient is most like what was seen (Geiping et al., 2020; LQ-SGD, eq. 4).

Minimised over images x, by Adam with the signs of the objective's gradient:

    1 - cosine(gradient of x, what was seen) + smoothness * total variation of x
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .knowledge import Compare
from .victim import Victim

FALLS = (3 / 8, 5 / 8, 7 / 8)  # shares of the steps after which the rate is a tenth


@dataclass(frozen=True)
class Attack:
    """How images are sought.

    Attributes
    ----------
    steps: of Adam, from each start. rate: of the first steps, in units of the pixels.
    smoothness: weight of the total variation; a tensor [k] has one for each image.
    restarts: random images from which it starts; what ends with the least objective counts.
    seed: of these images.
    """

    steps: int = 300
    rate: float = 0.1
    smoothness: float | Tensor = 1e-3
    restarts: int = 1
    seed: int = 0


@dataclass(frozen=True)
class PixelFormat:
    """What everybody knows of the images: channels and side, and the least and the largest value of a pixel."""

    channels: int
    side: int
    least: float
    most: float


def invert(victim: Victim, compare: Compare, classes: Tensor, pixels: PixelFormat, attack: Attack) -> Tensor:
    """float32 [k, channels, side, side]: an image for each gradient that was seen, sought independently of the others.

    compare: what was seen, and how a dummy's gradient is compared with it. classes: int64 [k], known to the attacker.
    """
    generator = torch.Generator().manual_seed(attack.seed)
    shape = (len(classes), pixels.channels, pixels.side, pixels.side)
    best, least = torch.zeros(shape), torch.full((len(classes),), torch.inf)
    for _ in range(attack.restarts):
        found = _descend(victim, compare, classes, torch.randn(shape, generator=generator), pixels, attack)
        with torch.no_grad():
            value = objective(victim, compare, classes, found, attack.smoothness)
        better = value < least
        best[better], least[better] = found[better], value[better]
    return best


def objective(victim: Victim, compare: Compare, classes: Tensor, images: Tensor, smoothness: float | Tensor) -> Tensor:
    """float32 [k]: what is minimised over each of `images` float32 [k, channels, side, side]."""
    mine, seen = compare(victim.gradients(images, classes))
    return 1 - cosine_similarity(mine, seen, dim=1) + smoothness * total_variation(images)


def total_variation(images: Tensor) -> Tensor:
    """float32 [k]: the mean distance of neighbours across, and that of neighbours up and down, added."""
    across = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    down = (images[..., 1:, :] - images[..., :-1, :]).abs().mean((1, 2, 3))
    return across + down


def _descend(
    victim: Victim, compare: Compare, classes: Tensor, images: Tensor, pixels: PixelFormat, attack: Attack
) -> Tensor:
    images.clamp_(pixels.least, pixels.most).requires_grad_()
    optimizer = torch.optim.Adam([images], lr=attack.rate)
    falls = [int(share * attack.steps) for share in FALLS]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, falls, 0.1)
    for _ in range(attack.steps):
        optimizer.zero_grad()
        objective(victim, compare, classes, images, attack.smoothness).sum().backward()
        images.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            images.clamp_(pixels.least, pixels.most)
    return images.detach()
