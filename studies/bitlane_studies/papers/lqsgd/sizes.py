"""The sizes of the measurements of LQ-SGD."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class LQSGDSize(claim.StudySize):
    """The size of the measurements. A seed determines the order of the images and the initial weights.

    Parameters
    ----------
    images, epochs : int
        Training images of MNIST, and passes over them.
    side, steps : int
        Side of the square gradient in the timing of steps, and number of steps.
    attacked, attack_steps : int
        Number of attacked images, and steps of an attack.
    victim_steps : int
        Training steps of the attacked network.
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
