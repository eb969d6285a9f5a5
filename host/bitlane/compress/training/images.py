"""Image data sets for networks, as tensors: MNIST, Fashion-MNIST and CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.data.cifar10 import load_cifar10
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError

NAMES = ("mnist", "fashion_mnist", "cifar10")
HELD_OUT = 5_000  # of CIFAR-10's 50,000 training images


@dataclass(frozen=True)
class Images:
    """Images and their classes.

    Attributes
    ----------
    pixels : Tensor, float32 [n, channels, height, width]
        Training images, scaled to mean 0 and standard deviation 1.
    classes : Tensor, int64 [n]
        Classes of the training images.
    held_out_pixels : Tensor, float32 [m, channels, height, width]
        Held-out images, scaled like the training images.
    held_out_classes : Tensor, int64 [m]
        Classes of the held-out images.
    """

    pixels: Tensor
    classes: Tensor
    held_out_pixels: Tensor
    held_out_classes: Tensor


def load_images(name: str) -> Images:
    """Return a data set of `NAMES`; raise DataError for another name.

    The held-out images of CIFAR-10 are the last 5,000 training images.
    """
    if name == "cifar10":
        pixels, classes = load_cifar10()
        return _images(pixels[:-HELD_OUT], classes[:-HELD_OUT], pixels[-HELD_OUT:], classes[-HELD_OUT:])
    if name not in NAMES:
        raise DataError(f"unknown images {name!r}: choose one of {', '.join(NAMES)}")
    table = load_dataset(name)
    if table.held_out is None:
        raise DataError(f"{name} has no held-out images")
    square = (-1, 1, 28, 28)
    return _images(table.X.reshape(square), table.y, table.held_out[0].reshape(square), table.held_out[1])


def _images(*arrays: NDArray[Any]) -> Images:
    pixels, classes, held_out, held_out_classes = (np.asarray(array, np.float32) for array in arrays)
    mean, deviation = pixels.mean(dtype=np.float64), pixels.std(dtype=np.float64)
    seen, unseen = (torch.from_numpy((each - np.float32(mean)) / np.float32(deviation)) for each in (pixels, held_out))
    return Images(seen, torch.from_numpy(classes).long(), unseen, torch.from_numpy(held_out_classes).long())
