"""Keys of categories that are made of numbers and times: see `transforms`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.hashing import cell_key, cell_keys
from bitlane.sparse.batches.transforms import PARTS, part_name

Keys = NDArray[np.uint64]
_THURSDAY = 3  # 1970-01-01


def bucket_keys(column: str, numbers: NDArray[np.float32], missing: NDArray[np.bool_], edges: Sequence[float]) -> Keys:
    """Return the keys of cells that are put into buckets: uint64 [rows].

    The category of a number is the decimal text of how many edges are at most as large. Numbers are compared as
    float32: the same number is in the same bucket, whether a float32, a float64 or a text has it.
    """
    found = np.searchsorted(np.asarray(edges, np.float32), numbers, side="right")
    return _keys(column, len(edges) + 1, found, missing)


def part_keys(column: str, part: str, local: NDArray[np.int64], missing: NDArray[np.bool_]) -> Keys:
    """Return the keys of the hours, 0 to 23, or weekdays, 0 to 6, of a column: uint64 [rows].

    Parameters
    ----------
    column : str
    part : {"hour", "weekday"}
    local : int64 [rows]
        Seconds since 1970 by the clock of a zone.
    missing : bool [rows]
    """
    found = local // 3600 if part == "hour" else local // 86_400 + _THURSDAY
    return _keys(part_name(column, part), PARTS[part], found % PARTS[part], missing)


def _keys(name: str, count: int, found: NDArray[np.int64], missing: NDArray[np.bool_]) -> Keys:
    keys: Keys = cell_keys(name, list(range(count)))[found]
    keys[missing] = cell_key(name, None)
    return keys
