"""The raw rows and the scales that an encoder in hardware reads, as numbers of bits, beats and cycles.

`docs/design.md`, "Encoder", has the layout; `bitlane.quantization.source` packs it. A beat has a word of each row of a
group for every shard, as in the regions that an encoder writes. So the sizes of a row are those of one of its words:
of the first shard, which has the most features.
"""

from __future__ import annotations

from enum import IntEnum

from .formats import LABEL
from .layout import BURST_BEATS, CHUNK, LABELS_PER_WORD, WORD_BITS

POSITION_FRACTION = 20  # bits of a position inside an interval
ENCODER_LANES = 4  # values that an encoder takes in a cycle: a *part* of a row
CHUNK_PARTS = CHUNK // ENCODER_LANES
ENTRY_WORDS = 2  # of a feature in the table of scales: multiplier and shift; offset
MULTIPLIER_BITS = 24
SHIFT_BITS = 10  # signed
FLOAT_BIAS = 150  # a float32 is its significand of 24 bits times 2**(exponent field - 150)
ENCODER_BASE_BITS = 14  # base bits of a code, at most: 16 stored bits with draws, 14 without
MAX_ENCODER_SETS = 8  # draw sets of an encoding, at most
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


def region_bytes(port_bytes: int) -> int:
    """Return what the addresses of source region, base region and draw regions on a port are multiples of: a burst.

    Parameters
    ----------
    port_bytes : int
        Bytes of a beat on the port.
    """
    return BURST_BEATS * port_bytes


def row_parts(features: int, shards: int = 1) -> int:
    """Return the parts of a row in a shard: cycles in which an encoder takes its values, if these are integers."""
    full, rest = divmod(features - 1, CHUNK * shards)
    return full * CHUNK_PARTS + min(rest // ENCODER_LANES + 1, CHUNK_PARTS)


def row_beats(value_type: ValueType, features: int, shards: int = 1) -> int:
    """Return the beats of a raw row. A row begins with a beat of its own; parts of float32 values fill two beats."""
    return -(-row_parts(features, shards) * ENCODER_LANES * VALUE_BITS[value_type] // WORD_BITS)


def table_beats(features: int, shards: int = 1) -> int:
    """Return the beats of the table of scales: entries of all values of the parts of a row."""
    return row_parts(features, shards) * ENCODER_LANES * ENTRY_WORDS


def source_beats(value_type: ValueType, features: int, groups: int, outputs: int, shards: int = 1) -> int:
    """Return the beats of table, labels and raw rows, for groups of as many rows as a beat has."""
    labels = -(-groups // (LABELS_PER_WORD * shards)) * outputs
    return table_beats(features, shards) + labels + groups * row_beats(value_type, features, shards)


assert LABELS_PER_WORD * LABEL.bits == WORD_BITS
