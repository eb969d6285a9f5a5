"""Digests of rows: equal rows have equal ones, whatever the order of their features and the file that they are in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.parameters import rows as rows_module
from bitlane.sparse.parameters.compiling import inner, kernel
from bitlane.sparse.parameters.rows import mix

Digests = NDArray[np.uint64]
Index = NDArray[np.int64]

_ONE = 0x7F00  # the code of 1.0
_SIGN = 1 << 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inner
def coded(number: np.float32, bits: int) -> Any:
    """Return a number rounded to 1/256, or from 1 on to 8 bits behind the leading one: files may round numbers.

    `bits` are those of the float32. The codes of 1 and above do not meet those below.
    """
    size = min(abs(number), np.float32(1.0))
    small = int(size * np.float32(256.0) + np.float32(0.5))
    large = ((bits & 0x7FFFFFFF) + 0x4000) >> 15
    code = large if size == np.float32(1.0) else small + (_ONE - 256) * (small >> 8)
    return code + _SIGN * ((bits >> 31) & (code > 0))


@kernel(rows_module)
def _digest(
    features: tuple[Digests, NDArray[np.float32], NDArray[np.int32], Index],
    labels: tuple[NDArray[np.float32], NDArray[np.int32]],
    times: Index,
    rows: Index,
    digests: Digests,
) -> None:
    """Set the digest of each of `rows`. Sums of mixed words do not depend on the order of the features."""
    keys, values, bits, offsets = features
    one = np.uint64(_ONE) * _GOLDEN
    for i in range(len(rows)):
        row = rows[i]
        total = np.uint64(0)
        for at in range(offsets[row], offsets[row + 1]):
            if values[at] == np.float32(1.0):
                total += mix(keys[at] ^ one)
                continue
            code = coded(values[at], bits[at])
            if code:  # a value of 0 counts as no feature
                total += mix(keys[at] ^ (np.uint64(code) * _GOLDEN))
        label = np.uint64(coded(labels[0][row], labels[1][row]))
        moment = mix(np.uint64(times[row]) + _GOLDEN) if len(times) else np.uint64(0)
        digests[i] = mix(total + mix(label + np.uint64(1)) + moment)


def digests_of(batch: Batch, rows: Index | None = None) -> Digests:
    """Return a digest of each row, by its keys, values, label and time, without its fields.

    Values and labels are rounded: below 1 to 1/256, from 1 on to 8 bits behind the leading one. Features of 0 do not
    count.

    Parameters
    ----------
    batch : Batch
        With labels.
    rows : int64 [n], optional
        Which rows. Default: all.

    Returns
    -------
    uint64 [n]
    """
    rows = np.arange(batch.rows) if rows is None else rows
    digests = np.empty(len(rows), np.uint64)
    keys, values, offsets, labels = map(np.ascontiguousarray, (batch.keys, batch.values, batch.offsets, batch.labels))
    times = np.zeros(0, np.int64) if batch.times is None else np.ascontiguousarray(batch.times)
    _digest((keys, values, values.view(np.int32), offsets), (labels, labels.view(np.int32)), times, rows, digests)
    return digests
