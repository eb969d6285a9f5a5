"""What the reference does in a run: values that it clips, its prox, codebooks that it reads, numbers that it rounds.

An event is the name of a coverpoint and of one of its bins, or of the values that the bin crosses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import round_at_random, saturate
from bitlane.contract.formats import LEVEL, LEVEL_SCALED_GRADIENT, MASTER, RESIDUAL, SCALED_GRADIENT, Fixed
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.settings import Settings
from bitlane.reference import machine as reference
from bitlane.reference.blocks import CodebookBlock, Floats, Int64s

Event = tuple[object, ...]
Events = Counter[Event]
Bools = NDArray[np.bool_]
Codes = NDArray[np.unsignedinteger]

PROX_EFFECTS = (
    "L2 shrinks", "L1 moves down", "L1 moves up", "L1 makes zero", "BOX low", "BOX high", "BOX inside",
)  # fmt: skip
POSITIONS = ("only", "first", "middle", "last")  # of a chunk, or of an interval
DRAWS = ("low low", "low high", "high low", "high high")  # ends of the interval that the two draws chose
CUTS = ("0", "1", "middle", "largest")


@contextmanager
def reference_events(settings: Settings, rows_per_beat: int = 1) -> Iterator[Events]:
    """Count the events of the reference's next run, which has these settings."""
    events: Events = Counter()
    codebook = _Codebook(events)
    rounding = _Rounding(events, rows_per_beat)
    clipping = _Clipping(events, settings, rounding)
    prox = reference._Prox.apply

    def apply(self: reference._Prox, master: Int64s) -> Int64s:
        after = prox(self, master)
        _count_prox(events, self.settings.prox, master, after)
        return after

    with (
        patch.object(reference, "saturate", clipping.saturate),
        patch.object(reference, "round_at_random", rounding.round_at_random),
        patch.object(reference, "CodebookBlock", codebook.block),
        patch.object(reference._Prox, "apply", apply),
    ):
        yield events
    codebook.end()


def cut_class(cut: int) -> str:
    """Return which of CUTS a number of left-out bits is."""
    return {0: "0", 1: "1", MAX_CUT: "largest"}.get(cut, "middle")


class _Clipping:
    """Counts values that `saturate` clips.

    The reference clips z and, with squares, r of each copy in turn; s and d; what random rounding makes of them; with
    table lanes c_1 and c_2; and master weights.
    """

    def __init__(self, events: Events, settings: Settings, rounding: _Rounding):
        self._events = events
        self._rounding = rounding
        self._calls: Counter[Fixed] = Counter()
        self._names = {
            RESIDUAL: ("z", "r") if settings.loss == Loss.SQUARES else ("z",),
            SCALED_GRADIENT: ("s", "d"),
            LEVEL_SCALED_GRADIENT: ("c_1", "c_2"),
            MASTER: ("master",),
        }

    def saturate(self, x: Int64s, fmt: Fixed) -> tuple[Int64s, Bools]:
        coverpoint, name = "clipped after rounding", self._rounding.pending
        self._rounding.pending = ""
        if not name:
            names = self._names[fmt]
            coverpoint, name = "clipped", names[self._calls[fmt] % len(names)]
            self._calls[fmt] += 1
        self._events[coverpoint, name, "low"] += _sum(x < fmt.minimum)
        self._events[coverpoint, name, "high"] += _sum(x > fmt.maximum)
        return saturate(x, fmt)


class _Rounding:
    """Counts what random rounding does.

    Attributes
    ----------
    pending : str
        What was rounded last, until it is saturated: "model", "s", "d" or "".
    """

    def __init__(self, events: Events, rows_per_beat: int):
        self._events = events
        self._rows_per_beat = rows_per_beat
        self._models = 0
        self._rows = 0
        self.pending = ""

    def round_at_random(self, x: Int64s, random: NDArray[np.uint32], cut: int) -> Int64s:
        rounded = round_at_random(x, random, cut)
        ways = {"up": rounded > x, "down": rounded < x}
        if random.ndim == 1:  # weights [outputs, n] with the words [n]; else s or d [m, outputs] with the words [m, 1]
            what = "model"
            self._events["model rounded", "after a batch" if self._models else "at the start"] += 1
            self._models += 1
            self._count_positions("lane, model rounding", ways, (), axis=1, period=CHUNK)
        else:
            what = "sd"[self._rows % 2]
            self._rows += 1
            self._count_positions("row of a beat, rounding", ways, (what,), axis=0, period=self._rows_per_beat)
        self.pending = what
        self._count(what, cut, x >> cut, ways, rounded)
        return rounded

    def _count(self, what: str, cut: int, floor: Int64s, ways: dict[str, Bools], rounded: Int64s) -> None:
        events, up = self._events, ways["up"]
        for way, chosen in ways.items():
            events["rounding, sign", what, "negative", way] += _sum(chosen & (floor < 0))
            events["rounding, sign", what, "positive", way] += _sum(chosen & (floor >= 0))
            events["rounding, cut", what, cut_class(cut), way] += _sum(chosen)
        events["rounding changes nothing", what] += _sum(~up & ~ways["down"])
        overflow = rounded > MASTER.maximum  # 32 bits, as SCALED_GRADIENT
        carries = {
            "lowest bit": up & (floor & 1 == 0),
            "more bits": up & (floor & 1 == 1) & (floor != -1) & ~overflow,
            "from -1 to 0": up & (floor == -1),
            "out of range": up & overflow,
        }
        for name, chosen in carries.items():
            events["rounding up, carry", what, name] += _sum(chosen)

    def _count_positions(
        self, coverpoint: str, ways: dict[str, Bools], names: tuple[str, ...], axis: int, period: int
    ) -> None:
        """Count the ways of rounding at each position, which repeats along an axis: a lane, or a row of a beat."""
        for way, chosen in ways.items():
            for at in range(period):
                some = chosen[at::period] if axis == 0 else chosen[:, at::period]
                event = (coverpoint, at, *names, way)
                self._events[event] += _sum(some)


class _Codebook:
    """Counts what the codebook of a run holds, and which of its levels the samples choose."""

    def __init__(self, events: Events):
        self._events = events
        self._widths: Int64s | None = None
        self._sampled: Bools | None = None

    def block(self, codes: Codes, draws: Codes, levels: Floats) -> CodebookBlock:
        if self._widths is None or self._sampled is None:
            self._widths = np.asarray(np.diff(levels, axis=0), np.int64)
            self._sampled = np.zeros(self._widths.shape, np.bool_)
            self._count_levels(levels)
        self._count_samples(codes, draws, self._widths, self._sampled)
        return CodebookBlock(codes, draws, levels)

    def end(self) -> None:
        """Count the intervals with and without samples, at the end of the run."""
        if self._widths is not None and self._sampled is not None:
            for width, chosen in (("no", self._widths == 0), ("some", self._widths > 0)):
                self._events["interval, width, samples", width, "none"] += _sum(chosen & ~self._sampled)
                self._events["interval, width, samples", width, "some"] += _sum(chosen & self._sampled)

    def _count_levels(self, levels: Floats) -> None:
        assert self._widths is not None
        events, bits, equal = self._events, (len(levels) - 1).bit_length() - 1, self._widths == 0
        events["level", "smallest"] += _sum(levels == LEVEL.minimum)
        events["level", "negative"] += _sum((levels < 0) & (levels > LEVEL.minimum))
        events["level", "zero"] += _sum(levels == 0)
        events["level", "positive"] += _sum((levels > 0) & (levels < LEVEL.maximum))
        events["level", "largest"] += _sum(levels == LEVEL.maximum)
        events["equal levels of a feature", "none"] += _sum(~equal.any(axis=0))
        events["equal levels of a feature", "some"] += _sum(equal.any(axis=0) & ~equal.all(axis=0))
        events["equal levels of a feature", "all"] += _sum(equal.all(axis=0))
        chunks = [levels[:, first : first + CHUNK] for first in range(0, levels.shape[1], CHUNK)]
        for number, chunk in enumerate(chunks):
            others = [other for other in chunks if other is not chunk]
            if not any(np.array_equal(chunk, other[:, : chunk.shape[1]]) for other in others) and chunk.any():
                events["base bits, codebook of a chunk", bits, position(number, len(chunks))] += 1

    def _count_samples(self, codes: Codes, draws: Codes, widths: Int64s, sampled: Bools) -> None:
        intervals = len(widths)
        bits = intervals.bit_length() - 1
        lower = codes.astype(np.intp)
        width = np.take_along_axis(widths, lower, axis=0)
        widest = LEVEL.maximum - LEVEL.minimum
        self._events["interval of a sample", "no width"] += _sum(width == 0)
        self._events["interval of a sample", "some width"] += _sum((width > 0) & (width < widest))
        self._events["interval of a sample", "full range"] += _sum(width == widest)
        for interval in range(intervals):
            here = lower == interval
            sampled[interval] |= here.any(axis=0)
            for draw, name in enumerate(DRAWS):
                self._events["base bits, interval, draws", bits, position(interval, intervals), name] += _sum(
                    here & (draws == draw)
                )


def position(number: int, count: int) -> str:
    """Return which of POSITIONS item `number` of `count` has."""
    if count == 1:
        return "only"
    return "first" if number == 0 else "last" if number == count - 1 else "middle"


def _count_prox(events: Events, prox: Prox, before: Int64s, after: Int64s) -> None:
    if prox == Prox.L2:
        effects = {"L2 shrinks": after != before}
    elif prox == Prox.L1:
        effects = {
            "L1 moves down": (after < before) & (after != 0),
            "L1 moves up": (after > before) & (after != 0),
            "L1 makes zero": (after == 0) & (before != 0),
        }
    else:
        effects = {"BOX low": after > before, "BOX high": after < before, "BOX inside": after == before}
    for name, chosen in effects.items():
        events["prox", name] += _sum(chosen)


def _sum(mask: Bools) -> int:
    return int(np.count_nonzero(mask))
