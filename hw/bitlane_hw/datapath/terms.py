"""The payload of a pass over the beats of a group: digits that select between two terms, or the terms themselves."""

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

TERM = signed(MASTER.bits - 1)  # term of one weight in one row: at most |total| / 4, plus rounding


class DigitTerms:
    """A word of digits of a row and the two terms that they select from: `plus` if h == l, else `minus`."""

    layout = data.StructLayout({"word": WORD_BITS, "plus": TERM, "minus": TERM})

    @staticmethod
    def negated(row: Value, j: int) -> tuple[Value, Value]:
        """Return minus the term of weight j, as a value and a carry to add."""
        digit = digits_of_word(row.word)[j]
        chosen = Mux(digit.high == digit.low, row.plus, row.minus)
        return inverted_if(digit.high, chosen), digit.high


class LevelTerms:
    """The terms of a row for table lanes: round_half_up(level * scaled gradient, SHIFT)."""

    # A quarter of level times scaled gradient: the latter is twice step * slope, and two orders of draws are averaged.
    SHIFT = LEVEL.fraction + LEVEL_SCALED_GRADIENT.fraction + 2 - MASTER.fraction
    layout = data.ArrayLayout(signed(LEVEL.bits + LEVEL_SCALED_GRADIENT.bits - SHIFT), CHUNK)

    @staticmethod
    def negated(row: Value, j: int) -> tuple[Value, Value]:
        """Return minus the term of weight j, as a value and a carry to add."""
        return ~row[j], Const(1, 1)


def terms_of(config: AcceleratorConfig) -> type[DigitTerms | LevelTerms]:
    """Return the kind of terms in the passes of this build."""
    return LevelTerms if config.table_lanes else DigitTerms


def pass_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of one cycle of a pass: the terms of each row, and their position."""
    return data.StructLayout(
        {
            "rows": data.ArrayLayout(terms_of(config).layout, config.rows_per_beat),
            "chunk": range(config.max_chunks),
            "first": 1,  # first cycle of its chunk
            "continues": 1,  # with `first`: the lanes still hold the sum of this chunk, from the group before
            "last": 1,  # last cycle of its chunk
            "last_chunk": 1,  # last chunk of the row
            "prox": Prox,  # proximal operator of this update
            "end": GroupEnd,
        }
    )


def pass_members(config: AcceleratorConfig) -> dict[str, Member]:
    """Return the members of a pass over the beats of a group. `GradientPass` documents them."""
    return {
        "settings": In(settings_layout(config)),
        "start": In(1),
        "scaled_gradients": In(ScaledGradients).array(config.rows_per_beat),
        "end": In(GroupEnd),
        "prox": In(Prox),
        "beats": In(stream.Signature(config.shard_width)),
        "passes": Out(stream.Signature(pass_layout(config), always_ready=True)),
    }
