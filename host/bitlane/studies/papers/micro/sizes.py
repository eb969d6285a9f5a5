"""How much is measured of MiCRO's claims."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class MicroSize(claim.StudySize):
    """How much is measured.

    Parameters
    ----------
    seeds: each is initial weights, an order of the images, and draws.
    values, steps: of made-up gradients.
    images, epochs: of MNIST for training, and how often the network sees them.
    watched: steps of training in which the places that are sent are counted.
    """

    values: int
    steps: int
    images: int
    epochs: int
    watched: int


FULL = MicroSize("full", 3, 20_000, 1000, 12_000, 3, 40)
QUICK = MicroSize("quick", 2, 2000, 60, 512, 1, 3)
