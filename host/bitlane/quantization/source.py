"""Raw rows, labels and scales as the words that an encoder in hardware reads (`docs/design.md`, "Encoder")."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.encoding import (
    ENCODER_LANES,
    ENTRY_WORDS,
    FLOAT_BIAS,
    MULTIPLIER_BITS,
    POSITION_FRACTION,
    SHIFT_BITS,
    ValueType,
    left_shift,
    row_beats,
    row_parts,
    table_beats,
)
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import CHUNK, WORD_BYTES
from bitlane.contract.packing import Words, pack_labels
from bitlane.contract.shards import shard_base
from bitlane.errors import DataError

from .positions import PositionMap
from .scaling import Matrix

VALUE_TYPES: dict[np.dtype[Any], ValueType] = {
    np.dtype(np.uint8): ValueType.UINT8,
    np.dtype(np.int16): ValueType.INT16,
    np.dtype(np.float32): ValueType.FLOAT32,
}
BLOCK_VALUES = 1 << 16  # values that are packed at a time: what a cache holds
SHIFT_LIMIT = 1 << SHIFT_BITS - 1
OFFSET_RATIO = 1 << 16  # |center| / scale is below it: then no product needs a shift to the left


def value_type(dtype: np.dtype[np.generic]) -> ValueType:
    """Return the type of raw values; DataError if no encoder in hardware reads them."""
    if dtype not in VALUE_TYPES:
        raise DataError(
            f"the hardware encoder reads uint8, int16 and float32, not {dtype}: convert X, or encode on the host"
        )
    return VALUE_TYPES[dtype]


def pack_source(X: Matrix, labels: NDArray[np.int16], mapped: PositionMap, geometry: Geometry, base_bits: int) -> Words:
    """Return the source region of rows: the table of scales, then labels and raw rows.

    Parameters
    ----------
    X : uint8, int16 or float32 array [rows, n]
        Values in user units.
    labels : int16 array [rows, outputs]
        In units of ``2**-15``.
    mapped : PositionMap
        Positions of the stored features.
    geometry : Geometry
        Of the encoded rows.
    base_bits : int
        Base bits that the hardware supports.

    Returns
    -------
    uint64 array
        `bitlane.contract.encoding.source_beats` beats.

    Raises
    ------
    DataError
        Values of another type, or scales that the hardware cannot hold.
    """
    kind, words = value_type(X.dtype), geometry.words_per_beat
    table = _spread_table(pack_scales(mapped, base_bits), geometry)
    together, outputs, beats = (
        geometry.label_groups,
        geometry.outputs,
        row_beats(kind, geometry.features, geometry.shards),
    )
    sets = -(-geometry.groups // together)  # of the groups whose labels share a beat
    every = np.zeros(len(table) + sets * (outputs + together * beats) * words, np.uint64)
    every[: len(table)] = table
    of_sets = every[len(table) :].reshape(sets, outputs + together * beats, geometry.shards, geometry.rows_per_beat)
    only_labels = replace(geometry, base_digits=0, draws=True)
    label_words = shard_base(pack_labels(labels, only_labels.unsharded), only_labels)
    of_sets[:, :outputs] = label_words.reshape(sets, outputs, *of_sets.shape[2:])
    rows = of_sets[:, outputs:].reshape(sets, together, beats, *of_sets.shape[2:])
    step = max(1, BLOCK_VALUES // (together * geometry.rows_per_beat * _even_features(geometry)))
    for first in range(0, sets, step):
        some = range(first * together, min((first + step) * together, geometry.groups))
        apart = _to_shards(_raw_rows(X, mapped, geometry, some), geometry)[:, :, : beats * WORD_BYTES // X.itemsize]
        packed = np.ascontiguousarray(apart).view(np.uint64)
        in_groups = packed.reshape(-1, geometry.rows_per_beat, geometry.shards, beats).transpose(0, 3, 2, 1)
        rows[first : first + step] = in_groups.reshape(-1, together, *in_groups.shape[1:])
    missing = -geometry.groups % together * beats * words
    return every[: len(every) - missing]


def _raw_rows(X: Matrix, mapped: PositionMap, geometry: Geometry, groups: range) -> NDArray[Any]:
    """Return the stored columns of the rows of some groups, [rows, n], with zeros up to complete chunks and groups.

    The groups are filled up to a multiple of those whose labels share a beat.
    """
    some, slots = geometry.rows_of(groups), geometry.slots(groups)
    complete = -(-len(groups) // geometry.label_groups) * geometry.label_groups * geometry.rows_per_beat
    raw = np.zeros((complete, _even_features(geometry)), X.dtype)
    stored = raw[:, : geometry.features]
    if slots[-1] == len(slots) - 1:  # no row is missing between
        np.take(X[some], mapped.columns, axis=1, out=stored[: len(slots)], mode="clip")
    else:
        stored[slots] = X[some][:, mapped.columns]
    if not mapped.multipliers[-1]:  # the stored feature of an intercept, whose column is any
        stored[:, -1] = 0
    return raw


def _even_features(geometry: Geometry) -> int:
    """Return the features of a row with complete chunks."""
    return geometry.chunks * geometry.shards * CHUNK


def _to_shards(rows: NDArray[Any], geometry: Geometry) -> NDArray[Any]:
    """Return rows of complete chunks, [rows, n, ...], as the features of each shard, [rows, shards, n / S, ...]."""
    chunks = rows.reshape(len(rows), geometry.chunks, geometry.shards, CHUNK, *rows.shape[2:])
    apart: NDArray[Any] = chunks.swapaxes(1, 2)
    return apart.reshape(len(rows), geometry.shards, geometry.chunks * CHUNK, *rows.shape[2:])


def _spread_table(table: Words, geometry: Geometry) -> Words:
    """Return a table of scales as beats: each word has the entries of its shard."""
    if geometry.words_per_beat == 1:
        return table
    entries = np.zeros((1, _even_features(geometry), ENTRY_WORDS), np.uint64)
    entries[0, : geometry.features] = table.reshape(-1, ENTRY_WORDS)[: geometry.features]
    count = table_beats(geometry.features, geometry.shards)
    of_shards = _to_shards(entries, geometry).reshape(geometry.shards, -1)[:, :count]
    words: Words = np.repeat(of_shards.T, geometry.rows_per_beat, axis=1).reshape(-1)
    return words


def holds_scales(mapped: PositionMap, base_bits: int) -> bool:
    """Return whether a table of scales has an entry for each stored feature."""
    return not _beyond(mapped, base_bits).any()


def _beyond(mapped: PositionMap, base_bits: int) -> NDArray[np.bool_]:
    middle = 2.0 ** (mapped.base_bits - 1 + POSITION_FRACTION)
    beyond: NDArray[np.bool_] = np.abs(_shifts(mapped, base_bits)) >= SHIFT_LIMIT
    beyond |= np.abs(mapped.offsets) >= OFFSET_RATIO * middle
    return beyond


def _shifts(mapped: PositionMap, base_bits: int) -> NDArray[np.int64]:
    fraction, exponent = np.frexp(mapped.multipliers)
    shift = np.where(fraction, left_shift(base_bits) + FLOAT_BIAS + MULTIPLIER_BITS - exponent, 0)
    return shift.astype(np.int64)


def pack_scales(mapped: PositionMap, base_bits: int) -> Words:
    """Return the table of scales: the entries of the stored features, then zeros up to a complete part.

    Raises
    ------
    DataError
        A feature whose values are so small or so large that no entry holds its scale.
    """
    features = len(mapped.multipliers)
    shift = _shifts(mapped, base_bits)
    if (beyond := _beyond(mapped, base_bits)).any():
        feature = int(beyond.argmax())
        raise DataError(
            f"stored feature {feature} is beyond the scales of the hardware encoder: multiply its column by a constant"
        )
    table = np.zeros((row_parts(features) * ENCODER_LANES, ENTRY_WORDS), np.int64)
    multipliers = np.ldexp(np.frexp(mapped.multipliers)[0], MULTIPLIER_BITS).astype(np.int64)
    table[:features, 0] = multipliers | (shift & 2 * SHIFT_LIMIT - 1) << MULTIPLIER_BITS
    table[:features, 1] = mapped.offsets.astype(np.int64)
    words: Words = table.reshape(-1).view(np.uint64)
    assert len(words) == table_beats(features)
    return words
