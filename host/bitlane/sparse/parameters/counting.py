"""The compiled loops of statistics: which features are counted, what they add to a row, what is counted."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters import rows as rows_module
from bitlane.sparse.parameters.compiling import kernel
from bitlane.sparse.parameters.rows import mix

Keys = NDArray[np.uint64]
Fields = NDArray[np.uint16]
Singles = NDArray[np.float32]
Index = NDArray[np.int64]
Floats = NDArray[np.float64]
Features = tuple[Keys, Fields, Singles, Index]  # keys, fields, values and offsets of a batch

COUNT, CLICKS, WEIGHT, WEIGHTED_CLICKS = range(4)  # columns of a row of the table
WIDTH = 4
KINDS = ("rate", "count", "clicks")
_RATE, _COUNT, _CLICKS = range(3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel(rows_module)
def select(arrays: Features, index_of: NDArray[np.int32], words: Keys, indices: NDArray[np.int32], rows: Index) -> int:
    """Find the features of the chosen fields; return their number.

    Parameters
    ----------
    arrays : keys, fields, values, offsets of a batch
    index_of : int32 [65,536]
        Number of each field among the chosen ones, or -1.
    words : uint64 [nnz]
        Set to the key of the statistics: the feature's key, mixed with its field.
    indices, rows : int32 [nnz], int64 [nnz]
        Set to the number of the field and the row.
    """
    keys, fields, values, offsets = arrays
    count = 0
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            index = index_of[fields[i]]
            if index >= 0 and values[i] != 0:
                words[count] = mix(keys[i] ^ mix((np.uint64(fields[i]) + np.uint64(1)) * _GOLDEN))
                indices[count] = index
                rows[count] = row
                count += 1
    return count


@kernel()
def summarise(
    table: Singles,
    slots: Index,
    indices: NDArray[np.int32],
    rows: Index,
    fading: Floats,
    prior: Floats,
    kinds: Index,
    summaries: Singles,
) -> None:
    """Set the statistics of each row and chosen field: the mean over the features of the field in the row.

    Parameters
    ----------
    table : float32 [slots, 4]
    slots : int64 [n]
        -1: never seen.
    indices, rows : int32 [n], int64 [n]
        From `select`.
    fading : float64 [rows]
        Factor on the table's weights at the time of each row.
    prior : float64 [2]
        Rate and weight of the pseudo sightings.
    kinds : int64 [k]
        Indices of `KINDS`.
    summaries : float32 [rows, chosen fields, k + 1]
        Begins with zeros; set to the values, then the number of features.
    """
    rate, weight = prior
    start = math.log(rate / (1.0 - rate))
    last = summaries.shape[2] - 1
    for i in range(len(slots)):
        summary = summaries[rows[i], indices[i]]
        summary[last] += np.float32(1)
        slot = slots[i]
        if slot < 0:
            continue
        for k in range(last):
            if kinds[k] == _RATE:
                seen = table[slot, WEIGHT] * fading[rows[i]]
                clicks = table[slot, WEIGHTED_CLICKS] * fading[rows[i]]
                rest = max(seen - clicks, 0.0)
                value = math.log((clicks + rate * weight) / (rest + (1.0 - rate) * weight)) - start
            elif kinds[k] == _COUNT:
                value = math.log1p(table[slot, COUNT])
            else:
                value = math.log1p(table[slot, CLICKS])
            summary[k] += np.float32(value)
    for row in range(summaries.shape[0]):
        for field in range(summaries.shape[1]):
            count = summaries[row, field, last]
            if count > 1:
                for k in range(last):
                    summaries[row, field, k] /= count


@kernel()
def append(arrays: Features, summaries: Singles, keys: Keys, fields: Fields, out: Features) -> int:
    """Write a batch's features and behind those of each row its statistics; return the number of features.

    Parameters
    ----------
    arrays : keys, fields, values, offsets of a batch
    summaries : float32 [rows, chosen fields, k + 1]
    keys, fields : uint64 [chosen fields * k], uint16 [chosen fields * k]
        Of the statistics.
    out : keys, fields, values, offsets
        Large enough.
    """
    in_keys, in_fields, in_values, in_offsets = arrays
    out_keys, out_fields, out_values, out_offsets = out
    at = 0
    last = summaries.shape[2] - 1
    for row in range(len(in_offsets) - 1):
        for i in range(in_offsets[row], in_offsets[row + 1]):
            out_keys[at], out_fields[at], out_values[at] = in_keys[i], in_fields[i], in_values[i]
            at += 1
        for field in range(summaries.shape[1]):
            if summaries[row, field, last] > 0:
                for k in range(last):
                    which = field * last + k
                    out_keys[at], out_fields[at] = keys[which], fields[which]
                    out_values[at] = summaries[row, field, k]
                    at += 1
        out_offsets[row + 1] = at
    return at


@kernel()
def tally(index: Index, rows: Index, labels: Singles, weights: Floats, sums: Floats) -> None:
    """Add sightings to the sums of their keys.

    Parameters
    ----------
    index : int64 [n]
        Index of each sighting's key in `sums`.
    rows : int64 [n]
    labels : float32 [rows]
    weights : float64 [rows]
        Of a sighting in each row.
    sums : float64 [keys, 2]
        Sightings and clicks.
    """
    for i in range(len(index)):
        weight = weights[rows[i]]
        sums[index[i], COUNT] += weight
        sums[index[i], CLICKS] += weight * labels[rows[i]]
