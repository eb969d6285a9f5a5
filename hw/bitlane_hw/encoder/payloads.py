"""Payloads between the blocks of the encoder."""

from __future__ import annotations

from amaranth.hdl import signed
from amaranth.lib import data

from bitlane.contract.draws import GROUP_SETS
from bitlane.contract.encoding import (
    CHUNK_PARTS,
    ENCODER_LANES,
    MULTIPLIER_BITS,
    SHIFT_BITS,
    ValueType,
)
from bitlane.contract.layout import CHUNK, DIGIT_BITS

VALUE_TYPE = range(len(ValueType))
RAW_BITS = 32  # of a value on its way to a position lane: a float32, or an integer in the low bits
DIGITS_BITS = ENCODER_LANES * DIGIT_BITS  # one digit of each value of a part
UNIFORM_BITS = 16  # of a random number that a draw compares


GROUP_BITS = 24  # of the number of groups of an encoding


def encoder_layout(max_features: int, base_bits: int, sets: int, rows_per_beat: int = 1) -> data.StructLayout:
    """Return the layout of the settings of an encoding. They are constant while it lasts.

    Parameters
    ----------
    max_features : int
        Features of a row in a shard, at most.
    base_bits, sets : int
        Base bits of a code and draw sets, at most.
    rows_per_beat : int, default=1
        Rows of a group. With several of them the settings tell which groups have fewer: see `GroupRows`.
    """
    tail = range(rows_per_beat + 1)
    tails = {"batch_groups": GROUP_BITS, "batch_tail": tail, "epoch_tail": tail} if rows_per_beat > 1 else {}
    return data.StructLayout(
        {
            "value_type": VALUE_TYPE,
            "last_part": range(max_features // ENCODER_LANES),  # index of the last part of a row
            "rows": GROUP_BITS,  # groups of rows
            "base": 1,  # write base words and labels
            "base_digits": range(base_bits // DIGIT_BITS + 1),
            "sets": range(sets + 1),  # draw sets to write
            "first_set": range(GROUP_SETS),  # number of the first of them in its group
            **tails,
        }
    )


def factor_layout() -> data.StructLayout:
    """Return the layout of the factor of a feature: product = value * multiplier, then a shift to the right."""
    return data.StructLayout({"multiplier": MULTIPLIER_BITS, "shift": signed(SHIFT_BITS)})


def part_layout() -> data.StructLayout:
    """Return the layout of the flags of a part on its way through the lanes."""
    return data.StructLayout(
        {
            "row_first": 1,
            "slot": range(CHUNK_PARTS),  # index of the part in its chunk
            "chunk_last": 1,
        }
    )


def position_layout(base_bits: int) -> data.StructLayout:
    """Return the layout of a clipped position: a draw is 1 if its random number is below `inside + round_up`."""
    return data.StructLayout({"code": max(base_bits, 1), "inside": UNIFORM_BITS, "round_up": 1})


assert CHUNK % ENCODER_LANES == 0
