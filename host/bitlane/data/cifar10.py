"""CIFAR-10's training images: from the folder that `BITLANE_DATA` names, or from their public home."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.cache import cache_folder

from .datasets import Remote, fetch

Images = NDArray[np.uint8]
Labels = NDArray[np.uint8]

HOME = Remote("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz")
BATCHES = {  # SHA-1 of data_batch_1.bin to data_batch_5.bin
    1: "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    2: "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    3: "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    4: "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    5: "26e2849e66a845b7f1e4614ae70f4889ae604628",
}
SHAPE = (3, 32, 32)  # red, green, blue; rows; columns
RECORD = 1 + 3 * 32 * 32  # bytes: the class, then the pixels


def load_cifar10() -> tuple[Images, Labels]:
    """The 50,000 training images in their original order: uint8 [50000, 3, 32, 32], classes uint8 [50000].

    `BITLANE_DATA` may hold them as `cifar10_train_b1.npz` to `b5.npz`: `y`, and `D`, the images as differences (see
    `from_differences`). Raises DataError for a failed download or files that are not what they should be.
    """
    local = _local()
    parts = [_decoded(path) for path in local] if local else _fetched()
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _local() -> list[Path]:
    """The five files of BITLANE_DATA, or none."""
    root = os.environ.get("BITLANE_DATA")
    paths = [Path(root) / f"cifar10_train_b{batch}.npz" for batch in BATCHES] if root else []
    return paths if all(path.exists() for path in paths) else []


def _decoded(path: Path) -> tuple[Images, Labels]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            coded, labels = arrays["D"], arrays["y"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not a file of CIFAR-10 images: {error}") from error
    if coded.dtype != np.uint8 or coded.shape != (len(labels), *SHAPE):
        raise DataError(f"{path} is not a file of CIFAR-10 images: D is {coded.dtype} {coded.shape}")
    return from_differences(coded), np.asarray(labels, np.uint8)


def from_differences(coded: Images) -> Images:
    """Images [n, 3, h, w] from their differences, all modulo 256, which deflate packs well.

    Red and blue are stored less green; then each pixel less its left neighbour, then each row less the one above.
    """
    images: Images = np.cumsum(np.cumsum(coded, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
    images[:, [0, 2]] += images[:, 1:2]
    return images


def _fetched() -> list[tuple[Images, Labels]]:
    archive = fetch(HOME, cache_folder() / "cifar10")
    try:
        with tarfile.open(archive) as files:
            return [_batch(files, batch, archive) for batch in BATCHES]
    except (tarfile.TarError, KeyError) as error:
        raise DataError(f"{archive} is damaged ({error}): delete it to fetch it again") from error


def _batch(files: tarfile.TarFile, batch: int, archive: Path) -> tuple[Images, Labels]:
    member = files.extractfile(f"cifar-10-batches-bin/data_batch_{batch}.bin")
    content = member.read() if member else b""
    if hashlib.sha1(content).hexdigest() != BATCHES[batch]:
        raise DataError(f"{archive}: data_batch_{batch}.bin is not the file it was: delete it to fetch it again")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]
