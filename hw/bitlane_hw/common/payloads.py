"""Payloads of the streams and ports between the blocks."""

# No `from __future__ import annotations` here: `data.Struct` reads the annotations as shapes.

from amaranth.hdl import Cat, Value, signed, unsigned
from amaranth.lib import data, enum

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import (
    EXPONENT_BITS,
    LABEL,
    MANTISSA_BITS,
    RESIDUAL,
    SCALED_GRADIENT,
    WEIGHT,
    WEIGHT_EXPONENT,
)
from bitlane.contract.layout import BURST_BEATS, CHUNK, CODEBOOK_BITS, WORD_BITS
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.sigmoid_lut import LUT


class Kind(enum.Enum, shape=2):
    """Kind of a beat."""

    MODEL = 0
    LABEL = 1
    BASE = 2
    DRAW = 3


class Scale(data.Struct):
    """A positive factor, mantissa * 2**-(exponent + offset). The offset is a constant of the register that holds it."""

    mantissa: MANTISSA_BITS
    exponent: EXPONENT_BITS


class ObjectiveSettings(data.Struct):
    """The function that a run minimises. Constant during the run."""

    loss: Loss
    prox: Prox
    low: signed(16)  # BOUND
    high: signed(16)  # BOUND
    unpenalized_intercept: unsigned(1)  # prox skips the last feature, the intercept


def settings_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of the geometry of a run. The values are constant during the run."""
    tail = range(config.rows_per_beat + 1)
    half = {"half_digit": 1} if config.table_lanes else {}  # base codes have one more bit, the most significant
    return data.StructLayout(
        {
            "chunks": range(config.max_chunks + 1),
            "last_lane": range(config.chunk_features),  # lane of the last feature, in the last chunk
            "base_digits": 5,
            **half,
            "draws": 1,
            "groups": 24,
            "batch_groups": 24,
            "batch_tail": tail,  # rows in the last group of a batch
            "epoch_tail": tail,  # rows in the last group of an epoch
            "epochs": 16,
            "staleness": 1,
            "weight_exponent": signed(WEIGHT_EXPONENT.bits),
        }
    )


def base_bits(settings: Value) -> Value:
    """Return the number of base bits of a code for table lanes, from a `settings_layout`."""
    return Cat(settings.half_digit, settings.base_digits)[: max(CODEBOOK_BITS).bit_length()]


def token_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of the description of one beat.

    The flags describe groups; they have no meaning for MODEL and LABEL beats.
    """
    half = {"half_digit": 1} if config.table_lanes else {}  # half digits of this chunk and the next
    return data.StructLayout(
        {
            "kind": Kind,
            "chunk": range(config.max_chunks),
            "output": range(config.loads),  # of a MODEL or LABEL beat; in MODEL beats the levels follow the outputs
            "part": range(config.chunk_beats),  # of a MODEL beat: its index in the chunk
            **half,
            "first": 1,  # first digit of its chunk
            "last_base": 1,  # last base digit of its chunk
            "last": 1,  # last digit of its chunk
            "row_last": 1,  # last beat of its group
            "phase": range(config.label_groups),  # group modulo label_groups: index of its label among those of its row
            "batch_last": 1,  # its group is the last of a mini-batch
            "epoch_last": 1,  # its group is the last of an epoch
        }
    )


def request_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a burst to read or write: its address and its number of beats, 1 to 16."""
    return data.StructLayout({"address": config.address_bits, "beats": range(BURST_BEATS + 1)})


def store_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a request for a burst on each port: the addresses, side by side, and the number of beats."""
    return data.StructLayout({"addresses": config.address_bits * config.ports, "beats": range(BURST_BEATS + 1)})


class GroupEnd(data.Struct):
    """Facts about a group that the pipeline needs after the last beat of the group."""

    batch_last: unsigned(1)
    epoch_last: unsigned(1)


class RowEnd(data.Struct):
    """The label of a row, and whether the row is present: the last group of a batch may be incomplete."""

    label: signed(LABEL.bits)
    present: unsigned(1)


def model_layout(config: AcceleratorConfig, bits: int) -> data.StructLayout:
    """Return the layout of a beat of a model, or of the `bits` bits of it for a shard, on its way to the weights."""
    return data.StructLayout(
        {
            "words": bits,
            "chunk": range(config.max_chunks),
            "output": range(config.loads),
            "part": range(config.chunk_beats),
        }
    )


def digit_flags(config: AcceleratorConfig) -> tuple[str, ...]:
    """Return the names of the token flags that accompany a digit beat to the lanes, in addition to `draw`."""
    return ("half_digit", "row_last") if config.table_lanes else ("first", "last_base", "row_last")


def digit_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a digit beat on its way to the lanes."""
    return data.StructLayout(
        {
            "words": config.width,
            "chunk": range(config.max_chunks),
            "bank": 1,  # bank of the published weights that it reads
            "draw": 1,
            **dict.fromkeys(digit_flags(config), 1),
            "end": GroupEnd,
            "rows": data.ArrayLayout(data.ArrayLayout(RowEnd, config.rows_per_beat), config.outputs),
        }
    )


def row_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a digit word of one row, for the dot lanes of that row."""
    chunk = {"chunk": range(config.max_chunks)} if config.table_lanes else {}
    flags = dict.fromkeys(digit_flags(config), 1)
    return data.StructLayout({"word": WORD_BITS, **chunk, "draw": 1, **flags, "end": RowEnd})


def dots_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of the two exact dot products of a row.

    The unit is 2**-(WEIGHT.fraction + base bits); with table lanes it is 2**-(WEIGHT.fraction + LEVEL.fraction).
    """
    bits = dot_bits(config.max_features)
    return data.StructLayout({"dot1": signed(bits), "dot2": signed(bits), "end": RowEnd})


def dot_bits(features: int) -> int:
    """Return the width of an exact dot product: |sample| < 2**32 units, |weight| <= 2**23 units."""
    return 32 + (WEIGHT.bits - 1) + (features - 1).bit_length() + 1


class Predictions(data.Struct):
    """Both rounded dot products of a row."""

    z1: signed(RESIDUAL.bits)
    z2: signed(RESIDUAL.bits)
    end: RowEnd


class Slopes(data.Struct):
    """Both slopes of the loss of a row, the cost of the row, and its end.

    For HINGE and LOGISTIC the cost is the sum of both losses of the row in units of 2**-RESIDUAL.fraction, in two
    parts: `margin_cost` from the margins and `table_cost` from the sigmoid lookup table. For SQUARES the cost is the
    product of the slopes, so that both fields have no meaning.
    """

    r1: signed(RESIDUAL.bits)
    r2: signed(RESIDUAL.bits)
    margin_cost: unsigned(RESIDUAL.bits + 2)
    table_cost: unsigned(LUT.bits + 1 + RESIDUAL.fraction - LUT.fraction)
    end: RowEnd


class ScaledGradients(data.Struct):
    """Step times the sum, and step times the difference, of the two slopes of a row."""

    total: signed(SCALED_GRADIENT.bits)
    difference: signed(SCALED_GRADIENT.bits)


class Digit(data.Struct):
    """A radix-4 digit with bits h and l. It stands for 2(+-1) + (+-1); a 1 selects plus."""

    low: 1
    high: 1


digits_of_word = data.ArrayLayout(Digit, CHUNK)
