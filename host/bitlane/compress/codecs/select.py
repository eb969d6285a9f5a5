"""The values of a vector whose magnitude reaches a threshold, and their places: what sparse codecs send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import check_values
from .compiled import kernels

Values = NDArray[np.float32]
Places = NDArray[np.int64]
_TILE = 4096  # values that the compiled loop wants room for
_SHARE = 32  # of the values, for how many there is room before more is made


def select(values: Values, threshold: float) -> tuple[Places, Values]:
    """Places int64 [k], rising, and values float32 [k] of all with |v| >= threshold, which float32 rounds; no NaN.

    values: float32 [n], contiguous. A threshold of zero or less selects every value that is a number. DataError for
    other arrays.
    """
    check_values(values, np.size(values))
    least = np.float32(threshold)
    if kernels() is None:
        places = np.flatnonzero(np.abs(values) >= least)
        return places, values[places]
    parts = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    begin = 0
    while begin < len(values):
        room = _TILE + len(values) // _SHARE
        places, found = np.empty(room, np.int64), np.empty(room, np.float32)
        count, begin = kernels().select(values, least, begin, places, found)
        for array in (places, found):
            array.resize(count, refcheck=False)  # gives memory back, and moves nothing
        parts.append((places, found))
    if len(parts) == 2:
        return parts[1]
    places, found = (np.concatenate(each) for each in zip(*parts, strict=True))
    return places, found
