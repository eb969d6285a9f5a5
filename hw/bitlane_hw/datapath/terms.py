"""What a pass over a group's beats brings for the weights: digits that choose between two terms, or the terms."""

from __future__ import annotations

from amaranth.hdl import Const, Mux, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, LEVEL_SCALED_GRADIENT, MASTER
from bitlane.contract.layout import CHUNK, WORD_BITS
from bitlane.contract.modes import Prox
from bitlane_hw.common.fixed_point import inverted_if
from bitlane_hw.common.payloads import GroupEnd, ScaledGradients, digits_of_word, settings_layout

TERM = signed(MASTER.bits - 1)  # a row's term of one weight: |total| / 4 and its roundings


class DigitTerms:
    """A word of digits, and the two terms that they choose from: `plus` where h == l, else `minus`."""

    layout = data.StructLayout({"word": WORD_BITS, "plus": TERM, "minus": TERM})

    @staticmethod
    def negated(row: Value, j: int) -> tuple[Value, Value]:
        """Minus the term of weight j, as a value and a carry to be added."""
        digit = digits_of_word(row.word)[j]
        chosen = Mux(digit.high == digit.low, row.plus, row.minus)
        return inverted_if(digit.high, chosen), digit.high


class LevelTerms:
    """The terms themselves, round_half_up(level * scaled_gradient, SHIFT): of table lanes."""

    # A quarter of level times scaled_gradient: this is twice step * slope, and both orders of the draws are averaged.
    SHIFT = LEVEL.fraction + LEVEL_SCALED_GRADIENT.fraction + 2 - MASTER.fraction
    layout = data.ArrayLayout(signed(LEVEL.bits + LEVEL_SCALED_GRADIENT.bits - SHIFT), CHUNK)

    @staticmethod
    def negated(row: Value, j: int) -> tuple[Value, Value]:
        """Minus the term of weight j, as a value and a carry to be added."""
        return ~row[j], Const(1, 1)


def terms_of(config: AcceleratorConfig) -> type[DigitTerms | LevelTerms]:
    """What this accelerator's passes bring."""
    return LevelTerms if config.table_lanes else DigitTerms


def pass_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A cycle of a pass: the terms of each column's row, and where they belong."""
    return data.StructLayout(
        {
            "rows": data.ArrayLayout(terms_of(config).layout, config.rows_per_beat),
            "chunk": range(config.max_chunks),
            "first": 1,  # of its chunk
            "last": 1,
            "tail": 1,  # last chunk of the row
            "prox": Prox,  # what this update does besides
            "end": GroupEnd,
        }
    )


def pass_members(config: AcceleratorConfig) -> dict[str, Member]:
    """What every pass over a group's beats has: `GradientPass` says what they mean."""
    return {
        "settings": In(settings_layout(config)),
        "start": In(1),
        "scaled_gradients": In(ScaledGradients).array(config.rows_per_beat),
        "end": In(GroupEnd),
        "prox": In(Prox),
        "beats": In(stream.Signature(config.width)),
        "passes": Out(stream.Signature(pass_layout(config), always_ready=True)),
    }
