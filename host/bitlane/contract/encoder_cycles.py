"""The cycle model of an encoding: on a memory that never stalls.

Each port has an encoder of its own. All take as many beats of as many words, so the cycles are those of one port.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cycles import CHECK_CYCLES, MemoryTiming
from .encoding import CHUNK_PARTS, ROW_WORD_CYCLES, ValueType, row_parts, table_beats
from .geometry import Geometry
from .layout import BURST_BEATS

LABEL_CYCLES = 12  # from one label beat to the next, at least: one passes beside the lanes at a time
PIPELINE_CYCLES = 24  # from the first request to the first beat, and from the last beat to done, without the memory's


@dataclass(frozen=True)
class EncodingCycles:
    """The cycles of an encoding on a memory that never stalls.

    The regions take turns at the write port, and the last bursts of an encoding depend on whose turn it is. So there
    are two bounds. They are close unless the write port limits the encoding.

    Attributes
    ----------
    least, most : int
    """

    least: int
    most: int


def predict_encoding(
    geometry: Geometry,
    value_type: ValueType,
    writes_base: bool,
    sets: int,
    timing: MemoryTiming = MemoryTiming(),  # noqa: B008
) -> EncodingCycles:
    """Return the cycles of an encoding.

    Parameters
    ----------
    geometry : Geometry
        Of the encoded rows.
    value_type : ValueType
    writes_base : bool
        Whether the base region is written.
    sets : int
        Draw sets that are written.
    timing : MemoryTiming
    """
    begin = CHECK_CYCLES + max(geometry.base_row_words, geometry.chunks).bit_length()
    fixed = begin + PIPELINE_CYCLES + timing.read_latency + timing.write_latency
    beats = [geometry.base_beats] * writes_base + [geometry.chunks * geometry.groups] * sets
    bursts = sum(-(-count // BURST_BEATS) for count in beats)
    rows = _row_cycles(geometry, value_type, writes_base, sets)
    taking, writing = table_beats(geometry.features, geometry.shards) + rows, sum(beats) + bursts
    last_bursts = (len(beats) + 1) * (BURST_BEATS + 2)
    waits = sum(beats) + 2 * bursts > rows  # for the write port
    return EncodingCycles(fixed + max(taking, writing), fixed + taking + (writing + bursts) * waits + last_bursts)


def _row_cycles(geometry: Geometry, value_type: ValueType, writes_base: bool, sets: int) -> int:
    """Return the cycles in which the sequencer takes labels and rows.

    The groups whose labels share a beat follow each other, and all such runs of groups but the first are alike.
    """
    together = geometry.label_groups
    runs, rest = divmod(geometry.groups, together)
    if runs <= 2:
        return _simulated(geometry, value_type, writes_base, sets, geometry.groups)
    run = _simulated(geometry, value_type, writes_base, sets, 2 * together) - _simulated(
        geometry, value_type, writes_base, sets, together
    )
    return _simulated(geometry, value_type, writes_base, sets, 2 * together + rest) + (runs - 2) * run


def _simulated(geometry: Geometry, value_type: ValueType, writes_base: bool, sets: int, groups: int) -> int:
    """Return the cycles of the first groups, chunk by chunk."""
    part_cycles = 2 if value_type == ValueType.FLOAT32 else 1
    parts = row_parts(geometry.features, geometry.shards)
    chunk_words = max(geometry.base_digits * writes_base, 1)
    cycle, words_left, row_ready, label_ready = 0, 0, 0, 0
    for group in range(groups):
        if group % geometry.label_groups == 0:
            for _ in range(geometry.outputs):
                cycle = max(cycle, words_left, label_ready) if writes_base else cycle
                label_ready = cycle + LABEL_CYCLES
                cycle += 1
        first = cycle + part_cycles - 1
        if sets:
            first = max(first, row_ready)
            row_ready = first + ROW_WORD_CYCLES
        cycle = first - part_cycles + 1
        for start in range(0, parts, CHUNK_PARTS):
            last = max(cycle + min(CHUNK_PARTS, parts - start) * part_cycles - 1, words_left)
            words_left = last + chunk_words
            cycle = last + 1
    return cycle
