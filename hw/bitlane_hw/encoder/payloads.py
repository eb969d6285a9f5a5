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


def encoder_layout(max_features: int, base_bits: int, sets: int) -> data.StructLayout:
    """Return the layout of the settings of an encoding. They are constant while it lasts."""
    return data.StructLayout(
        {
            "value_type": VALUE_TYPE,
            "last_part": range(max_features // ENCODER_LANES),  # index of the last part of a row
            "rows": 24,
            "base": 1,  # write base words and labels
            "base_digits": range(base_bits // DIGIT_BITS + 1),
            "sets": range(sets + 1),  # draw sets to write
            "first_set": range(GROUP_SETS),  # number of the first of them in its group
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
