"""How much is measured of ZipML's claims."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class ZipMLSize(claim.StudySize):
    """How much is measured.

    Parameters
    ----------
    seeds: each is an order of the rows, draws, noise and initial weights.
    rows: most rows of a data set.
    epochs: of linear models.
    images, image_epochs: of CIFAR-10 for training, and how often the network sees them.
    pixels, scan_epochs: of a side of the reconstructed image, and passes over its rays.
    """

    rows: int
    epochs: int
    images: int
    image_epochs: int
    pixels: int
    scan_epochs: int


FULL = ZipMLSize("full", 3, 20_000, 20, 45_000, 3, 64, 20)
QUICK = ZipMLSize("quick", 2, 600, 4, 400, 1, 16, 4)
