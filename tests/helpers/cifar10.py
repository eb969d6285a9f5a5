"""CIFAR-10 in the format of its authors, made from the smaller files of the tests' data folder.

The files `cifar10_train_b1.npz` to `b5.npz` hold classes `y` and images `D` as differences modulo 256, which pack
better. `python -m tests.helpers.cifar10 FOLDER` makes FOLDER a data folder with the public files, and prints the line
to type before `make reproduce`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from bitlane.data.cifar10 import FOLDER, NAMES


def from_differences(coded: np.ndarray) -> np.ndarray:
    """Undo, modulo 256: red and blue less green; each pixel less its left neighbour; each row less the row above."""
    images = np.cumsum(np.cumsum(coded, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
    images[:, [0, 2]] += images[:, 1:2]
    return images


def write_public_files(source: Path, target: Path) -> Path:
    """Write the five files of the binary version below `target`; return their folder."""
    folder = target / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for batch, name in enumerate(NAMES, start=1):
        with np.load(source / f"cifar10_train_b{batch}.npz") as arrays:
            images, labels = from_differences(arrays["D"]), arrays["y"].astype(np.uint8)
        (folder / name).write_bytes(np.concatenate([labels[:, None], images.reshape(len(labels), -1)], 1).tobytes())
    return folder


def data_folder_with_cifar10(source: Path, target: Path) -> Path:
    """Fill `target` with the public files of CIFAR-10 and links to the other files of `source`."""
    write_public_files(source, target)
    for path in source.iterdir():
        if not (target / path.name).exists():
            (target / path.name).symlink_to(path.resolve())
    return target


if __name__ == "__main__":
    made = data_folder_with_cifar10(Path(os.environ["BITLANE_DATA"]), Path(sys.argv[1]).resolve())
    print(f"export BITLANE_DATA={made}")
