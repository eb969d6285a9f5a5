"""Distinct keys of a batch, and where each feature's key is among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.rows import mix

Keys = NDArray[np.uint64]


@kernel(rows)
def _unique(keys: Keys, table: NDArray[np.int64], distinct: Keys, index: NDArray[np.int64]) -> int:
    """Fill `distinct` with the distinct keys in the order of their first sight, and `index`; return their number.

    `table` is all -1, and its length is a power of two of at least twice the number of keys.
    """
    mask = np.uint64(len(table) - 1)
    count = 0
    for i in range(len(keys)):
        at = mix(keys[i]) & mask
        while table[at] >= 0 and distinct[table[at]] != keys[i]:
            at = (at + np.uint64(1)) & mask
        if table[at] < 0:
            table[at] = count
            distinct[count] = keys[i]
            count += 1
        index[i] = table[at]
    return count


def unique_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct keys, in the order of their first sight, and the index of each key among them.

    Parameters
    ----------
    keys : uint64 [nnz]

    Returns
    -------
    distinct : uint64 [n]
    index : int64 [nnz]
        ``distinct[index]`` equals `keys`.
    """
    table = np.full(1 << max(1, (2 * len(keys) - 1).bit_length()), -1, np.int64)
    distinct, index = np.empty(len(keys), np.uint64), np.empty(len(keys), np.int64)
    count = _unique(np.require(keys, requirements=("C", "ALIGNED", "WRITEABLE")), table, distinct, index)
    return distinct[:count].copy(), index
