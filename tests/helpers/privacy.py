"""Synthetic images, and a small network for fast attacks."""

from __future__ import annotations

import numpy as np
import torch

from bitlane_studies.privacy.attack import PixelFormat
from bitlane_studies.privacy.victim import Victim, smooth_network

PIXELS = PixelFormat(1, 12, -1.0, 1.0)
CLASSES = torch.tensor([3, 7, 1])


def victim(seed):
    return Victim(smooth_network(PIXELS.channels, PIXELS.side, seed))


def blobs(seed):
    """Return float32 [3, 1, 12, 12] in [-1, 1]: one image per class, each with two bright spots."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: PIXELS.side, : PIXELS.side]
    images = np.zeros((len(CLASSES), 1, PIXELS.side, PIXELS.side))
    for image in images:
        for at in rng.uniform(2, PIXELS.side - 3, (2, 2)):
            image[0] += np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / 4)
    return torch.from_numpy(2 * np.clip(images, 0, 1) - 1).float()
