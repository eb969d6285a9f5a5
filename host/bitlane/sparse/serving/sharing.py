"""Features that all rows of a request share, such as the user's and the context's: sent once, scored in each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.serving.requests import RequestBounds, batch_of
from bitlane.support.jit import machine_code


def spread_shared(batch: Batch, bounds: RequestBounds) -> Batch:
    """Return the rows of a batch behind the first one, each with the features of the first one before its own.

    Raises
    ------
    DataError
        There is no first row, or the rows have too many features.
    """
    if batch.rows == 0:
        raise DataError("a request with shared features needs them as its first row; it has no row")
    shared, rows = int(batch.offsets[1]), batch.rows - 1
    nnz = batch.nnz - shared + shared * rows
    bounds.check(rows, nnz)
    keys, fields, values = np.empty(nnz, np.uint64), np.empty(nnz, np.uint16), np.empty(nnz, np.float32)
    offsets = batch.offsets[1:] + shared * np.arange(rows + 1) - shared
    for given, out in ((batch.keys, keys), (batch.fields, fields), (batch.values, values)):
        _spread(given, batch.offsets, out)
    return batch_of(keys, offsets, fields, values)


def _spread_rows(given: NDArray[Any], offsets: NDArray[np.int64], out: NDArray[Any]) -> None:
    shared, at = offsets[1], 0
    for row in range(1, len(offsets) - 1):
        for feature in range(shared):
            out[at + feature] = given[feature]
        at += shared
        for feature in range(offsets[row], offsets[row + 1]):
            out[at] = given[feature]
            at += 1


_spread = machine_code(_spread_rows, nogil=True, error_model="numpy")
