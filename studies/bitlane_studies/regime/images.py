"""Embeddings: features of real images by a random convolution, enlarged by noisy copies of the images."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError

from .problems import Floats
from .tables import targets

PATCH, STEP = 6, 4  # pixels
NOISE = 0.1  # of a copy's pixels, over the range of pixels
SUBCLASSES = 10
WRONG = 0.05  # of the labels of 100 classes
CHUNK = 500  # images


def images() -> tuple[Floats, NDArray[np.int64]]:
    """Return CIFAR-10's training images, or MNIST's if `BITLANE_DATA` has no CIFAR-10, and their classes.

    Returns
    -------
    float32 array [images, channels, height, width]
        From 0 to 1.
    int64 array [images]
    """
    folder = Path(os.environ.get("BITLANE_DATA", "."))
    files = sorted(folder.glob("cifar10_train_b*.npz"))
    if not files:
        data = load_dataset("mnist")
        return _from_bytes(np.asarray(data.X, np.uint8).reshape(-1, 1, 28, 28)), np.asarray(data.y, np.int64)
    pixels, classes = [], []
    for file in files:
        with np.load(file) as stored:
            decoded = np.cumsum(np.cumsum(stored["D"], axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
            decoded[:, 0] += decoded[:, 1]  # red and blue are stored as differences from green
            decoded[:, 2] += decoded[:, 1]
            pixels.append(decoded)
            classes.append(stored["y"].astype(np.int64))
    return _from_bytes(np.concatenate(pixels)), np.concatenate(classes)


def _from_bytes(pixels: NDArray[np.uint8]) -> Floats:
    return np.asarray(pixels / np.float32(255), np.float32)


def embeddings(rows: int, columns: int, labels: str, seed: int = 0) -> tuple[Floats, Floats]:
    """Return features of images and -1 or 1 for each class.

    Half of the features are means, half are maxima over an image of the positive part of a random convolution with
    patches of 6 x 6 pixels, every 4 pixels. Images repeat with other noise until there are enough rows. "hundred"
    splits each class into ten by the largest of ten random projections of the image, and 5 % of its labels are wrong.

    Parameters
    ----------
    rows, columns : int
    labels : {"classes", "first", "hundred"}

    Raises
    ------
    DataError
        No images are at hand.
    """
    pixels, classes = images()
    if len(pixels) == 0:
        raise DataError("no images: set BITLANE_DATA to a folder with mnist.npz")
    rng = np.random.default_rng(seed)
    channels, height = pixels.shape[1], pixels.shape[2]
    size = channels * PATCH * PATCH
    filters = rng.standard_normal((size, columns - columns // 2), np.float32) / np.sqrt(np.float32(size))
    cut = rng.standard_normal((pixels[0].size, SUBCLASSES), np.float32)
    order = np.concatenate([rng.permutation(len(pixels)) for _ in range(-(-rows // len(pixels)))])[:rows]
    X, parts = np.empty((rows, columns), np.float32), np.empty(rows, np.int64)
    corners = range(0, height - PATCH + 1, STEP)
    for first in range(0, rows, CHUNK):
        some = pixels[order[first : first + CHUNK]]
        parts[first : first + CHUNK] = ((some.reshape(len(some), -1) - 0.5) @ cut).argmax(1)
        some = some + np.float32(NOISE) * rng.standard_normal(some.shape, np.float32)
        patches = np.stack(
            [some[:, :, i : i + PATCH, j : j + PATCH].reshape(len(some), -1) for i in corners for j in corners], 1
        )
        patches -= patches.mean(2, keepdims=True)
        answers = np.maximum(patches @ filters, 0)
        X[first : first + CHUNK, : filters.shape[1]] = answers.mean(1)
        X[first : first + CHUNK, filters.shape[1] :] = answers.max(1)[:, : columns // 2]
    y = classes[order]
    if labels == "hundred":
        y = SUBCLASSES * y + parts
        wrong = rng.random(rows) < WRONG
        y[wrong] = rng.integers(0, y.max() + 1, int(wrong.sum()))
    return X, targets(y, "classes" if labels == "hundred" else labels)
