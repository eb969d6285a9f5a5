"""The raw rows and the scales that an encoder in hardware reads, as numbers of bits, beats and cycles.

`docs/design.md`, "Encoder", has the layout. Rows are beats of 64 bits; `bitlane.quantization.source` packs them.
"""

from __future__ import annotations

from enum import IntEnum

from .formats import LABEL
from .layout import BURST_BEATS, CHUNK, LABELS_PER_WORD, WORD_BITS, WORD_BYTES

POSITION_FRACTION = 20  # bits of a position inside an interval
ENCODER_LANES = 4  # values that an encoder takes in a cycle: a *part* of a row
CHUNK_PARTS = CHUNK // ENCODER_LANES
ENTRY_WORDS = 2  # of a feature in the table of scales: multiplier and shift; offset
MULTIPLIER_BITS = 24
SHIFT_BITS = 10  # signed
FLOAT_BIAS = 150  # a float32 is its significand of 24 bits times 2**(exponent field - 150)
ENCODER_BASE_BITS = 14  # base bits of a code, at most: 16 stored bits with draws, 14 without
MAX_ENCODER_SETS = 8  # draw sets of an encoding, at most
REGION_BYTES = BURST_BEATS * WORD_BYTES  # source region, base region and draw regions begin at multiples of it
ROW_WORD_CYCLES = 9  # from one row to the next, at least: 8 rounds of the random word of a row, and its load


class ValueType(IntEnum):
    """Type of the raw values."""

    UINT8 = 0
    INT16 = 1
    FLOAT32 = 2


VALUE_BITS = {ValueType.UINT8: 8, ValueType.INT16: 16, ValueType.FLOAT32: 32}
# Integers stand at the top of the 24 bits of a significand. As for a float32, their unit is 2**(exponent - FLOAT_BIAS).
INTEGER_SHIFT = {ValueType.UINT8: 16, ValueType.INT16: 8}


def position_bits(base_bits: int) -> int:
    """Return the width of a position with sign, for up to `base_bits` base bits and values in (-3, 3) after scaling."""
    return base_bits + POSITION_FRACTION + 2


def left_shift(base_bits: int) -> int:
    """Return how far a product is shifted to the left in front of the shift to the right of its feature."""
    return max(0, base_bits - 11)


def row_parts(features: int) -> int:
    """Return the parts of a row: cycles in which an encoder takes its values, if these are integers."""
    return -(-features // ENCODER_LANES)


def row_beats(value_type: ValueType, features: int) -> int:
    """Return the beats of a raw row. A row begins with a beat of its own; parts of float32 values fill two beats."""
    return -(-row_parts(features) * ENCODER_LANES * VALUE_BITS[value_type] // WORD_BITS)


def table_beats(features: int) -> int:
    """Return the beats of the table of scales: entries of all values of the parts of a row."""
    return row_parts(features) * ENCODER_LANES * ENTRY_WORDS


def source_beats(value_type: ValueType, features: int, rows: int, outputs: int) -> int:
    """Return the beats of table, labels and raw rows."""
    labels = -(-rows // LABELS_PER_WORD) * outputs
    return table_beats(features) + labels + rows * row_beats(value_type, features)


assert LABELS_PER_WORD * LABEL.bits == WORD_BITS
