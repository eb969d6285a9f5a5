"""The sizes of the measurements of ZipML."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class ZipMLSize(claim.StudySize):
    """The size of the measurements. A seed determines the order of the rows, draws, noise and initial weights.

    Parameters
    ----------
    rows : int
        Largest number of rows of a data set.
    epochs : int
        Epochs of linear models.
    images, image_epochs : int
        Training images of CIFAR-10, and passes over them.
    pixels, scan_epochs : int
        Side of the reconstructed image in pixels, and passes over its rays.
    part_seeds : int
        Trainings with samples, model and gradient of few bits.
    """

    rows: int
    epochs: int
    images: int
    image_epochs: int
    pixels: int
    scan_epochs: int
    part_seeds: int


FULL = ZipMLSize("full", 3, 20_000, 20, 45_000, 3, 64, 20, 5)
QUICK = ZipMLSize("quick", 2, 600, 4, 400, 1, 16, 4, 2)
