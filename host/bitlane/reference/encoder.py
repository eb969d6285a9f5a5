"""The encoder in numpy: from the words of a source region to those of base region and draw regions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.draws import GROUP_SETS, DrawSet, draw_words, row_words
from bitlane.contract.encoding import (
    ENTRY_WORDS,
    FLOAT_BIAS,
    MULTIPLIER_BITS,
    SHIFT_BITS,
    ValueType,
    left_shift,
    row_beats,
    source_beats,
    table_beats,
)
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import CHUNK
from bitlane.contract.packing import Words, pack_base, pack_draws
from bitlane.contract.precision import Precision
from bitlane.quantization.positions import PositionMap
from bitlane.quantization.quantize import base_codes, draw_codes

DTYPES = {ValueType.UINT8: np.uint8, ValueType.INT16: np.int16, ValueType.FLOAT32: np.float32}


@dataclass(frozen=True)
class EncodeSettings:
    """What an encoding reads and writes.

    Attributes
    ----------
    value_type : ValueType
    geometry : Geometry
        Of the encoded rows.
    writes_base : bool
        Whether the base region is written.
    sets : int
        Draw sets that are written.
    first_set : DrawSet
        The first of them, with its seed plus INDEX_STEP for each row before the first. The others follow in its group,
        the first set of the group after the last.
    """

    value_type: ValueType
    geometry: Geometry
    writes_base: bool
    sets: int
    first_set: DrawSet

    @property
    def source_words(self) -> int:
        """Words of the source region."""
        shape = self.geometry
        beats = source_beats(self.value_type, shape.features, shape.groups, shape.outputs, shape.shards)
        return beats * shape.words_per_beat


def encode_source(source: Words, settings: EncodeSettings, base_bits: int) -> tuple[Words | None, list[Words]]:
    """Return the base region, if it is written, and the draw regions of a source region.

    Parameters
    ----------
    source : uint64 array
        `EncodeSettings.source_words` words.
    settings : EncodeSettings
    base_bits : int
        Base bits that the encoder supports: the unit of the shifts in the table depends on it.
    """
    geometry = settings.geometry
    entries = table_beats(geometry.features, geometry.shards) * geometry.words_per_beat
    mapped = _scales(_read_table(source[:entries], geometry), base_bits, geometry.base_bits)
    values, labels = _read_rows(source[entries:], settings)
    positions = mapped.positions(values)
    draws = Precision(geometry.base_bits + 2)
    base = pack_base(base_codes(positions, draws), labels, geometry) if settings.writes_base else None
    seed, first = settings.first_set
    words = draw_words(row_words(seed, range(geometry.rows)), geometry.features)
    sets = [DrawSet(seed, (first + i) % GROUP_SETS) for i in range(settings.sets)]
    drawn = replace(geometry, draws=True)
    return base, [pack_draws(draw_codes(positions, draws, words ^ each.mask), drawn) for each in sets]


def _read_table(table: Words, geometry: Geometry) -> Words:
    """Return the entries of a table of scales, [features, words]: of each shard they are in its first word."""
    beats = table.reshape(-1, ENTRY_WORDS, geometry.shards, geometry.rows_per_beat)
    of_shards = beats[:, :, :, 0].transpose(2, 0, 1)
    entries: Words = _from_shards(of_shards[np.newaxis], geometry)[0]
    return entries


def _read_rows(words: Words, settings: EncodeSettings) -> tuple[NDArray[Any], NDArray[np.int16]]:
    """Return raw values, [rows, features], and labels, [rows, outputs], of a source region without its table."""
    geometry = settings.geometry
    together, outputs = geometry.label_groups, geometry.outputs
    beats = row_beats(settings.value_type, geometry.features, geometry.shards)
    sets = -(-geometry.groups // together)
    of_sets = np.zeros((sets, outputs + together * beats, geometry.shards, geometry.rows_per_beat), np.uint64)
    of_sets.reshape(-1)[: len(words)] = words
    slots = geometry.slots(range(geometry.groups))
    fields = np.ascontiguousarray(of_sets[:, :outputs, ..., np.newaxis]).view(np.int16)  # a label of each group
    labels = fields.transpose(0, 2, 4, 3, 1).reshape(-1, outputs)[slots]
    rows = of_sets[:, outputs:].reshape(sets * together, beats, geometry.shards, geometry.rows_per_beat)
    apart = np.ascontiguousarray(rows.transpose(0, 3, 2, 1)).view(DTYPES[settings.value_type])
    values = _from_shards(apart.reshape(-1, geometry.shards, apart.shape[-1])[slots], geometry)
    return values, labels


def _from_shards(values: NDArray[Any], geometry: Geometry) -> NDArray[Any]:
    """Return the features of the shards, [rows, shards, n of the first shard, ...], in order, [rows, n, ...]."""
    chunks = np.zeros((len(values), geometry.shards, geometry.chunks * CHUNK, *values.shape[3:]), values.dtype)
    chunks[:, :, : values.shape[2]] = values
    split = chunks.reshape(len(values), geometry.shards, geometry.chunks, CHUNK, *values.shape[3:]).swapaxes(1, 2)
    in_order: NDArray[Any] = split.reshape(len(values), -1, *values.shape[3:])[:, : geometry.features]
    return in_order


def _scales(table: Words, base_bits: int, of_code: int) -> PositionMap:
    """Return the positions that the entries of the features, [features, words], describe."""
    entries = table.view(np.int64)
    limit = 1 << SHIFT_BITS - 1
    shift = (entries[:, 0] >> MULTIPLIER_BITS & 2 * limit - 1 ^ limit) - limit
    multipliers = np.ldexp(
        (entries[:, 0] & (1 << MULTIPLIER_BITS) - 1).astype(np.float64), left_shift(base_bits) + FLOAT_BIAS - shift
    )
    return PositionMap(np.arange(len(entries)), multipliers, entries[:, 1].astype(np.float64), of_code)
