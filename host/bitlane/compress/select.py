"""The values of a vector whose magnitude reaches a threshold, and their places: what sparse codecs send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Places = NDArray[np.int64]


def select(values: Values, threshold: float) -> tuple[Places, Values]:
    """Places int64 [k], rising, and values float32 [k] of all with |v| >= threshold, which float32 rounds; no NaN.

    values: float32 [n]. A threshold of zero or less selects every value that is a number.
    """
    places = np.flatnonzero(np.abs(values) >= np.float32(threshold))
    return places, values[places]
