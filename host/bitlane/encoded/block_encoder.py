"""From rows of values to the planes and the statistics of a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .column_codes import ColumnCodes
from .planes import Planes, encode_planes, kernels_for

PIECE = 1 << 18  # values that are encoded at a time: what a cache holds


class EncodedBlock(NamedTuple):
    """Rows as digit planes.

    Attributes
    ----------
    planes : uint64 array [digits, rows, chunks]
    clipped : float64 array [n]
        How many values of each column are beyond its scale.
    """

    planes: Planes
    clipped: Any


def encode_block(X: Any, codes: ColumnCodes) -> EncodedBlock:
    """Encode the rows of an array or RowTable [rows, n] of finite integers or floats."""
    rows, n = X.shape
    planes = np.empty((codes.digits, rows, codes.chunks), np.uint64)
    stored, clipped = np.zeros(len(codes.active), np.int64), np.zeros(n)
    mapped, piece = codes.positions(), max(1, PIECE // n)
    for first in range(0, rows, piece):
        some = np.asarray(X[first : first + piece])
        stored += encode_planes(kernels_for(rows * n), some, mapped, planes[:, first : first + len(some)])
        constant = some[:, codes.constant]
        clipped[codes.constant] += (constant != codes.center[codes.constant]).sum(axis=0)
    clipped[codes.active] = stored
    return EncodedBlock(planes, clipped)
