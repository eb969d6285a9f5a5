"""What travels between the blocks."""

# No `from __future__ import annotations` here: `data.Struct` reads the annotations as shapes.

from amaranth.hdl import Cat, Value, signed, unsigned
from amaranth.lib import data, enum

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import EXPONENT_BITS, LABEL, MANTISSA_BITS, RESIDUAL, SCALED_GRADIENT, WEIGHT
from bitlane.contract.layout import BURST_BEATS, CHUNK, CODEBOOK_BITS, LABELS_PER_WORD, WORD_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.sigmoid_lut import LUT

LANE = range(CHUNK)


class Kind(enum.Enum, shape=2):
    """What a beat of the stream is."""

    MODEL = 0
    LABEL = 1
    BASE = 2
    DRAW = 3


class Scale(data.Struct):
    """A positive factor: mantissa * 2**-(exponent + a constant of its register)."""

    mantissa: MANTISSA_BITS
    exponent: EXPONENT_BITS


class Objective(data.Struct):
    """What a run minimises, constant while it lasts."""

    loss: Loss
    prox: Prox
    low: signed(16)  # BOUND
    high: signed(16)  # BOUND
    unpenalized_intercept: unsigned(1)  # the last feature is an intercept: prox leaves it alone


def settings_layout(config: AcceleratorConfig) -> data.StructLayout:
    """The geometry of a run, constant while it lasts."""
    tail = range(config.rows_per_beat + 1)
    half = {"half": 1} if config.table_lanes else {}  # a base code has one bit more, its first
    return data.StructLayout(
        {
            "chunks": range(config.max_chunks + 1),
            "last_lane": LANE,  # of the last chunk: the last feature
            "base_digits": 5,
            **half,
            "draws": 1,
            "groups": 24,
            "batch_groups": 24,
            "batch_tail": tail,  # rows in the last group of a batch
            "epoch_tail": tail,  # rows in the last group of an epoch
            "epochs": 16,
            "staleness": 1,
        }
    )


def base_bits(settings: Value) -> Value:
    """Bits of a base code that table lanes take, of `settings_layout`."""
    return Cat(settings.half, settings.base_digits)[: max(CODEBOOK_BITS).bit_length()]


def token_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One beat's place in the stream; the flags are about groups and meaningless for MODEL and LABEL."""
    half = {"half": 1} if config.table_lanes else {}  # the half digits of a chunk and the next, in front of its digits
    return data.StructLayout(
        {
            "kind": Kind,
            "chunk": range(config.max_chunks),
            "output": range(config.loads),  # of a MODEL or LABEL beat; MODEL: of a level behind those of the outputs
            "part": range(config.chunk_beats),  # of a MODEL beat: its place in the chunk
            **half,
            "first": 1,  # first digit of its chunk
            "last_base": 1,  # last base digit of its chunk
            "last": 1,  # last digit of its chunk
            "row_last": 1,  # last beat of its group
            "phase": range(LABELS_PER_WORD),  # group % 4: which of a label word's labels are this group's
            "batch_last": 1,  # its group is the last of a mini-batch
            "epoch_last": 1,  # its group is the last of an epoch
        }
    )


def request_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A burst to write or to read: its address and its beats, 1 to 16."""
    return data.StructLayout({"address": config.address_bits, "beats": range(BURST_BEATS + 1)})


class GroupEnd(data.Struct):
    """What the pipeline needs to know of a group when its last beat has passed."""

    batch_last: unsigned(1)
    epoch_last: unsigned(1)


class RowEnd(data.Struct):
    """A row's label, and whether there is such a row: a batch's last group may have fewer than rows_per_beat."""

    label: signed(LABEL.bits)
    present: unsigned(1)


def model_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A beat of a model on its way to the weights."""
    return data.StructLayout(
        {
            "words": config.width,
            "chunk": range(config.max_chunks),
            "output": range(config.loads),
            "part": range(config.chunk_beats),
        }
    )


def digit_flags(config: AcceleratorConfig) -> tuple[str, ...]:
    """What lanes are told of a digit beat's place, besides whether it is a draw, by the names in a token."""
    return ("half", "row_last") if config.table_lanes else ("first", "last_base", "row_last")


def digit_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A digit beat on its way to the lanes."""
    return data.StructLayout(
        {
            "words": config.width,
            "chunk": range(config.max_chunks),
            "bank": 1,  # which version of the model it reads
            "draw": 1,
            **dict.fromkeys(digit_flags(config), 1),
            "end": GroupEnd,
            "rows": data.ArrayLayout(data.ArrayLayout(RowEnd, config.rows_per_beat), config.outputs),
        }
    )


def row_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A digit word of one row, for its dot lanes."""
    chunk = {"chunk": range(config.max_chunks)} if config.table_lanes else {}
    flags = dict.fromkeys(digit_flags(config), 1)
    return data.StructLayout({"word": WORD_BITS, **chunk, "draw": 1, **flags, "end": RowEnd})


def dots_layout(config: AcceleratorConfig) -> data.StructLayout:
    """The two exact dot products of a row, in units of 2**-(WEIGHT.fraction + base bits); of tables LEVEL.fraction."""
    bits = dot_bits(config.max_features)
    return data.StructLayout({"dot1": signed(bits), "dot2": signed(bits), "end": RowEnd})


def dot_bits(features: int) -> int:
    """Bits of an exact dot product of so many features: |sample| < 2**32 units, |weight| <= 2**23."""
    return 32 + (WEIGHT.bits - 1) + (features - 1).bit_length() + 1


class Predictions(data.Struct):
    """Both rounded dot products of a row."""

    z1: signed(RESIDUAL.bits)
    z2: signed(RESIDUAL.bits)
    end: RowEnd


class Slopes(data.Struct):
    """Both slopes of a row's loss, the losses where they are not the product of the slopes, and its end."""

    r1: signed(RESIDUAL.bits)
    r2: signed(RESIDUAL.bits)
    # HINGE, LOGISTIC: the sum of both losses, unit 2**-RESIDUAL.fraction, in two parts: that of the margins, and that
    # of the table.
    margin_cost: unsigned(RESIDUAL.bits + 2)
    table_cost: unsigned(LUT.bits + 1 + RESIDUAL.fraction - LUT.fraction)
    end: RowEnd


class ScaledGradients(data.Struct):
    """Step times sum, and times difference, of a row's slopes."""

    total: signed(SCALED_GRADIENT.bits)
    difference: signed(SCALED_GRADIENT.bits)


class Digit(data.Struct):
    """A digit 2h + l stands for 2(+-1) + (+-1)."""

    low: 1
    high: 1


digits_of_word = data.ArrayLayout(Digit, CHUNK)
