"""What travels between the blocks."""

# No `from __future__ import annotations` here: `data.Struct` reads the annotations as shapes.

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from .config import AcceleratorConfig
from .contract import (
    BURST_WORDS,
    CHUNK,
    COEFFICIENT,
    EXPONENT_BITS,
    LABEL,
    MANTISSA_BITS,
    RESIDUAL,
    WEIGHT,
    WORD_BITS,
)


class Kind(enum.Enum, shape=2):
    """What a word of the stream is."""

    MODEL = 0
    LABEL = 1
    BASE = 2
    DRAW = 3


class Scale(data.Struct):
    """A positive factor: mantissa * 2**-(exponent + a constant of its register)."""

    mantissa: MANTISSA_BITS
    exponent: EXPONENT_BITS


def settings_layout(config: AcceleratorConfig) -> data.StructLayout:
    """The geometry of a run, constant while it lasts."""
    return data.StructLayout(
        {
            "chunks": range(config.max_chunks + 1),
            "base_digits": 5,
            "draws": 1,
            "rows": 24,
            "batch": 24,
            "epochs": 16,
        }
    )


def token_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One word's place in the stream; the flags are about rows and meaningless for MODEL and LABEL."""
    return data.StructLayout(
        {
            "kind": Kind,
            "chunk": range(config.max_chunks),
            "first": 1,  # first digit of its chunk
            "last_base": 1,  # last base digit of its chunk
            "last": 1,  # last digit of its chunk
            "row_last": 1,  # last word of its row
            "row_phase": 2,  # row % 4: which of a label word's labels is this row's
            "batch_last": 1,  # its row is the last of a mini-batch
            "epoch_last": 1,  # its row is the last of an epoch
        }
    )


def request_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A burst to write or to read: its address and its words, 1 to 16."""
    return data.StructLayout({"address": config.address_bits, "words": range(BURST_WORDS + 1)})


class RowEnd(data.Struct):
    """What the pipeline needs to know of a row when its last word has passed."""

    label: signed(LABEL.bits)
    batch_last: unsigned(1)
    epoch_last: unsigned(1)


def digit_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A digit word on its way to the dot lanes."""
    return data.StructLayout(
        {
            "word": WORD_BITS,
            "chunk": range(config.max_chunks),
            "draw": 1,
            "first": 1,
            "last_base": 1,  # last base digit of its chunk
            "row_last": 1,
            "end": RowEnd,
        }
    )


def dots_layout(config: AcceleratorConfig) -> data.StructLayout:
    """The two exact dot products of a row, in units of 2**-(WEIGHT.fraction + base bits)."""
    bits = dot_bits(config)
    return data.StructLayout({"dot1": signed(bits), "dot2": signed(bits), "end": RowEnd})


def dot_bits(config: AcceleratorConfig) -> int:
    """Bits of an exact dot product: |sample| <= 2**32 units, |weight| <= 2**23, max_features of them."""
    return 32 + (WEIGHT.bits - 1) + (config.max_features - 1).bit_length() + 1


class Residuals(data.Struct):
    """Both residuals of a row."""

    r1: signed(RESIDUAL.bits)
    r2: signed(RESIDUAL.bits)
    batch_last: unsigned(1)
    epoch_last: unsigned(1)


class Coefficients(data.Struct):
    """Step times sum, and times difference, of a row's residuals."""

    total: signed(COEFFICIENT.bits)
    difference: signed(COEFFICIENT.bits)
    batch_last: unsigned(1)
    epoch_last: unsigned(1)


class Digit(data.Struct):
    """A digit 2h + l stands for 2(+-1) + (+-1)."""

    low: 1
    high: 1


digits_of_word = data.ArrayLayout(Digit, CHUNK)
