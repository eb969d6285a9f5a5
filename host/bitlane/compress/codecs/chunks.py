"""Exact top-k of each chunk of a vector: chunks are rows of a matrix, and one partial sort orders all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .largest import SMALLEST
from .select import Indices


def largest_in_rows(rows: NDArray[np.float32], count: int) -> Indices:
    """Return the indices of the largest magnitudes of each row of a matrix, in the flattened matrix.

    Parameters
    ----------
    rows : float32 [rows, n]
        Finite.
    count : int
        How many of each row, 1 to n. Zeros are never returned, so there are fewer of a row with fewer nonzero values.

    Returns
    -------
    int64 [<= rows count]
        Ascending. Of equal magnitudes in a row the first are taken.
    """
    magnitudes = np.abs(rows)
    at = rows.shape[1] - count
    least = np.maximum(np.partition(magnitudes, at, axis=1)[:, at, None], np.float32(SMALLEST))
    chosen = magnitudes >= least
    tied = np.flatnonzero(np.count_nonzero(chosen, axis=1) > count)
    if len(tied):
        above, equal = magnitudes[tied] > least[tied], magnitudes[tied] == least[tied]
        chosen[tied] = above | equal & (np.cumsum(equal, axis=1) <= count - np.sum(above, axis=1, keepdims=True))
    return np.flatnonzero(chosen)
