"""Selection by threshold: the values whose magnitude reaches it, and their indices, which sparse codecs send."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import check_values
from .compile_notice import compile_notice
from .compiled import kernels

Values = NDArray[np.float32]
Indices = NDArray[np.int64]
_TILE = 4096  # values for which the compiled loop needs room
_SHARE = 32  # the first buffers hold 1/32 of the values; more are allocated as needed


def select(values: Values, threshold: float) -> tuple[Indices, Values]:
    """Select all values with |v| >= threshold.

    Parameters
    ----------
    values : float32 [n]
        Contiguous. NaN is never selected.
    threshold : float
        Rounded to float32. Zero or less selects every value that is not NaN.

    Returns
    -------
    indices : int64 [k]
        Ascending.
    values : float32 [k]

    Raises
    ------
    DataError
        For other arrays.
    """
    check_values(values, np.size(values))
    least = np.float32(threshold)
    if kernels() is None:
        indices = np.flatnonzero(np.abs(values) >= least)
        return indices, values[indices]
    select_loop = kernels().select
    blocks = [(np.empty(0, np.int64), np.empty(0, np.float32))]
    begin = 0
    while begin < len(values):
        room = _TILE + len(values) // _SHARE
        indices, selected = np.empty(room, np.int64), np.empty(room, np.float32)
        with compile_notice(select_loop):
            count, begin = select_loop(values, least, begin, indices, selected)
        for array in (indices, selected):
            array.resize(count, refcheck=False)  # frees the rest of the buffer without a copy
        blocks.append((indices, selected))
    if len(blocks) == 2:
        return blocks[1]
    indices, selected = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return indices, selected
