"""The sizes of the measurements of MiCRO."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class MicroSize(claim.StudySize):
    """The size of the measurements. A seed determines the initial weights, the order of the images and the draws.

    Parameters
    ----------
    values, steps : int
        Values and steps of synthetic gradients.
    images, epochs : int
        Training images of MNIST, and passes over them.
    watched : int
        Training steps in which the sent indices are counted.
    """

    values: int
    steps: int
    images: int
    epochs: int
    watched: int


FULL = MicroSize("full", 3, 20_000, 1000, 12_000, 3, 40)
QUICK = MicroSize("quick", 2, 2000, 60, 512, 1, 3)
