"""Reader of idx files, the format of MNIST and Fashion-MNIST.

A few lines of numpy instead of a library: torchvision would bring torch, and the small packages for idx are no longer
maintained.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, packed with gzip.

    The file starts with the bytes 0, 0, 8 (type: unsigned byte) and the number of dimensions. The size of each
    dimension follows as 32 bits, high byte first, and then the values.

    Parameters
    ----------
    path : Path

    Returns
    -------
    uint8 array
        In the shape that the file states.

    Raises
    ------
    DataError
        The file is not packed with gzip, or is not an idx file of bytes.
    """
    try:
        data = gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged ({error}): delete it to download it again") from error
    dimensions = data[3] if len(data) > 3 else 0
    start = 4 + 4 * dimensions
    shape = [int(size) for size in np.frombuffer(data[4:start], ">u4")] if len(data) >= start else []
    if data[:3] != b"\0\0\x08" or not shape or len(data) != start + int(np.prod(shape)):
        raise DataError(f"{path} is not an idx file of bytes: delete it to download it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
