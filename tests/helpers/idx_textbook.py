"""Idx files, the format of MNIST, by their definition."""

from __future__ import annotations

import gzip
import struct

import numpy as np


def idx_file(array: np.ndarray) -> bytes:
    """The format by its definition, packed with gzip."""
    return gzip.compress(
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes(), mtime=0
    )
