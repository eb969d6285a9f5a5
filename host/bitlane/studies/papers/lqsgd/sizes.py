"""How much is measured of LQ-SGD's claims."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class LQSGDSize(claim.StudySize):
    """How much is measured.

    Parameters
    ----------
    seeds: each is an order of the images, and initial weights.
    images, epochs: of MNIST for training, and how often the network sees them.
    side, steps: of the square gradient that steps are timed on, and how many.
    attacked: images behind whose gradients the attackers are. attack_steps: of an attack.
    victim_steps: of the training of the network that is attacked.
    """

    images: int
    epochs: int
    side: int
    steps: int
    attacked: int
    attack_steps: int
    victim_steps: int


FULL = LQSGDSize("full", 3, 60_000, 2, 4096, 9, 8, 600, 300)
QUICK = LQSGDSize("quick", 2, 1_280, 1, 256, 3, 2, 10, 3)
