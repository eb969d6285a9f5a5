"""CIFAR-10's training images, from the binary version of its authors.

The format is so simple (a byte for the class and 3072 pixels, 10,000 times a file) that a few lines of numpy read it;
torchvision, the common loader, would bring torch to commands that do not need it.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.support.cache import cache_folder

from .catalog import remote_file
from .downloads import download

Images = NDArray[np.uint8]
Labels = NDArray[np.uint8]

FOLDER = "cifar-10-batches-bin"  # in the archive, and in BITLANE_DATA
NAMES = tuple(f"data_batch_{batch}.bin" for batch in range(1, 6))
ROWS = 10_000  # images in a file
SHAPE = (3, 32, 32)  # red, green, blue; rows; columns
ARCHIVE = remote_file("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz")

_RECORD = 1 + 3 * 32 * 32  # bytes: the class, then the pixels


def load_cifar10() -> tuple[Images, Labels]:
    """Load the 50,000 training images in their original order.

    They are read from the folder `cifar-10-batches-bin` in BITLANE_DATA (the unpacked binary version), if it exists.
    Otherwise the archive is downloaded (170 MB) and stored in the cache.

    Returns
    -------
    images : uint8 array [50000, 3, 32, 32]
        Red, green and blue; rows from the top; columns from the left.
    labels : uint8 array [50000]
        Classes 0 to 9.

    Raises
    ------
    DataError
        The download failed, or a file is damaged.
    """
    folder = _local_folder()
    batches = (
        [_from_folder(folder, name) for name in NAMES]
        if folder
        else _from_archive(download(ARCHIVE, cache_folder() / "cifar10"))
    )
    images, labels = zip(*batches, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _local_folder() -> Path | None:
    root = os.environ.get("BITLANE_DATA")
    folder = Path(root) / FOLDER if root else None
    return folder if folder is not None and folder.is_dir() else None


def _from_folder(folder: Path, name: str) -> tuple[Images, Labels]:
    try:
        content = (folder / name).read_bytes()
    except FileNotFoundError:
        raise DataError(f"{folder} has no {name}: unpack the binary version of CIFAR-10 there") from None
    return _parse(content, folder / name)


def _from_archive(archive: Path) -> list[tuple[Images, Labels]]:
    try:
        with tarfile.open(archive) as files:
            return [_parse(_content(files, name), archive / name) for name in NAMES]
    except (tarfile.TarError, EOFError, KeyError) as error:
        raise DataError(f"{archive} is damaged ({error}): delete it to download it again") from error


def _content(files: tarfile.TarFile, name: str) -> bytes:
    member = files.extractfile(f"{FOLDER}/{name}")
    return member.read() if member is not None else b""


def _parse(content: bytes, path: Path) -> tuple[Images, Labels]:
    if len(content) != ROWS * _RECORD:
        raise DataError(f"{path} has {len(content)} bytes: a file of CIFAR-10 has {ROWS * _RECORD}")
    records = np.frombuffer(content, np.uint8).reshape(ROWS, _RECORD)
    if records[:, 0].max() > 9:
        raise DataError(f"{path} is not a file of CIFAR-10: it has class {records[:, 0].max()}, and classes are 0 to 9")
    return records[:, 1:].reshape(ROWS, *SHAPE), records[:, 0]
