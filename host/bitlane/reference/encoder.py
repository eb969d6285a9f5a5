"""The encoder in numpy: from the words of a source region to those of base region and draw regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
from bitlane.contract.layout import LABELS_PER_WORD
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
    features, rows, outputs, base_digits : int
    writes_base : bool
        Whether the base region is written.
    sets : int
        Draw sets that are written.
    first_set : DrawSet
        The first of them, with its seed plus INDEX_STEP for each row before the first. The others follow in its group,
        the first set of the group after the last.
    """

    value_type: ValueType
    features: int
    rows: int
    outputs: int
    base_digits: int
    writes_base: bool
    sets: int
    first_set: DrawSet

    @property
    def source_words(self) -> int:
        """Words of the source region."""
        return source_beats(self.value_type, self.features, self.rows, self.outputs)


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
    features, rows, outputs = settings.features, settings.rows, settings.outputs
    entries = table_beats(features)
    mapped = _scales(source[:entries], features, base_bits, settings.base_digits * 2)
    beats = row_beats(settings.value_type, features)
    fours = -(-rows // LABELS_PER_WORD)
    padded = np.zeros(fours * (outputs + LABELS_PER_WORD * beats), np.uint64)
    padded[: len(source) - entries] = source[entries:]
    of_fours = padded.reshape(fours, -1)
    labels = np.ascontiguousarray(of_fours[:, :outputs]).view(np.int16).reshape(fours, outputs, LABELS_PER_WORD)
    values = np.ascontiguousarray(of_fours[:, outputs:]).reshape(-1, beats)[:rows].view(DTYPES[settings.value_type])
    positions = mapped.positions(values[:, :features])
    draws = Precision(2 * settings.base_digits + 2)
    geometry = Geometry.of(draws, features, rows, rows, outputs=outputs)
    base = None
    if settings.writes_base:
        of_rows = labels.transpose(0, 2, 1).reshape(-1, outputs)[:rows]
        base = pack_base(base_codes(positions, draws), of_rows, geometry)
    seed, first = settings.first_set
    words = draw_words(row_words(seed, range(rows)), features)
    sets = [DrawSet(seed, (first + i) % GROUP_SETS) for i in range(settings.sets)]
    return base, [pack_draws(draw_codes(positions, draws, words ^ each.mask), geometry) for each in sets]


def _scales(table: Words, features: int, base_bits: int, of_code: int) -> PositionMap:
    """Return the positions that a table of scales describes."""
    entries = table.reshape(-1, ENTRY_WORDS)[:features].view(np.int64)
    limit = 1 << SHIFT_BITS - 1
    shift = (entries[:, 0] >> MULTIPLIER_BITS & 2 * limit - 1 ^ limit) - limit
    multipliers = np.ldexp(
        (entries[:, 0] & (1 << MULTIPLIER_BITS) - 1).astype(np.float64), left_shift(base_bits) + FLOAT_BIAS - shift
    )
    return PositionMap(np.arange(features), multipliers, entries[:, 1].astype(np.float64), of_code)
