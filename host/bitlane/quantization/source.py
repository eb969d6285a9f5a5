"""Raw rows, labels and scales as the words that an encoder in hardware reads (`docs/design.md`, "Encoder")."""

from __future__ import annotations

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
from bitlane.contract.layout import LABELS_PER_WORD, WORD_BYTES
from bitlane.contract.packing import Words, pack_labels
from bitlane.errors import DataError

from .positions import PositionMap
from .scaling import Matrix

VALUE_TYPES: dict[np.dtype[Any], ValueType] = {
    np.dtype(np.uint8): ValueType.UINT8,
    np.dtype(np.int16): ValueType.INT16,
    np.dtype(np.float32): ValueType.FLOAT32,
}
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
        Of the encoded rows, with one row a beat.
    base_bits : int
        Base bits that the hardware supports.

    Returns
    -------
    uint64 array
        `bitlane.contract.encoding.source_beats` words.

    Raises
    ------
    DataError
        Values of another type, more than one row a beat, or scales that the hardware cannot hold.
    """
    kind = value_type(X.dtype)
    if geometry.rows_per_beat != 1:
        raise DataError(f"rows_per_beat={geometry.rows_per_beat}: the hardware encoder needs one row per beat")
    features, outputs, beats = geometry.features, geometry.outputs, row_beats(kind, geometry.features)
    raw = np.zeros((-(-geometry.rows // LABELS_PER_WORD) * LABELS_PER_WORD, beats * WORD_BYTES // X.itemsize), X.dtype)
    raw[: geometry.rows, :features] = X[:, mapped.columns]
    if not mapped.multipliers[-1]:  # the stored feature of an intercept, whose column is any
        raw[: geometry.rows, features - 1] = 0
    fours = raw.view(np.uint64).reshape(-1, LABELS_PER_WORD * beats)
    label_words = pack_labels(labels, Geometry(features, geometry.rows, 0, True, 1, outputs=outputs))
    rows = np.concatenate([label_words.reshape(-1, outputs), fours], axis=1).reshape(-1)
    missing = -geometry.rows % LABELS_PER_WORD * beats
    return np.concatenate([pack_scales(mapped, base_bits), rows[: len(rows) - missing]])


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
