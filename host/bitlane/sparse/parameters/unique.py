"""Distinct keys of a batch, and where each feature's key is among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.rows import mix


@kernel(rows)
def _unique(keys: Any, places: Any, found: Any, index: Any) -> int:
    """Fill `found` with the distinct keys in the order of their first sight, and `index`; return their number.

    `places` is all -1, and its length is a power of two of at least twice the number of keys.
    """
    mask = np.uint64(len(places) - 1)
    count = 0
    for i in range(len(keys)):
        at = mix(keys[i]) & mask
        while places[at] >= 0 and found[places[at]] != keys[i]:
            at = (at + np.uint64(1)) & mask
        if places[at] < 0:
            places[at] = count
            found[count] = keys[i]
            count += 1
        index[i] = places[at]
    return count


def unique_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct keys, in the order of their first sight, and each key's place among them.

    Parameters
    ----------
    keys : uint64 [nnz]

    Returns
    -------
    found : uint64 [n]
    index : int64 [nnz]
        ``found[index]`` equals `keys`.
    """
    places = np.full(1 << max(1, (2 * len(keys) - 1).bit_length()), -1, np.int64)
    found, index = np.empty(len(keys), np.uint64), np.empty(len(keys), np.int64)
    count = _unique(np.require(keys, requirements=("C", "ALIGNED", "WRITEABLE")), places, found, index)
    return found[:count].copy(), index
