"""An encoding by the accelerator: its inputs and its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bitlane.contract.encoding import REGION_BYTES, ValueType, source_beats
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import BURST_BEATS, WORD_BYTES
from bitlane.contract.registers import ENCODER_SEEDS, REGISTERS
from bitlane.devices.protocol import Buffer

from .buffers import SampleBuffers


@dataclass(frozen=True)
class Encoding:
    """Rows that the encoder of a device turns into samples.

    Parameters
    ----------
    geometry : Geometry
        Shape of the encoded rows.
    value_type : ValueType
        Type of the raw values.
    writes_base : bool
        Whether to write labels and base words.
    seeds : sequence of int
        For each draw set to write: the word of the set, plus INDEX_STEP for each row before the first.
    """

    geometry: Geometry
    value_type: ValueType
    writes_base: bool
    seeds: Sequence[int]

    @property
    def source_words(self) -> int:
        """Words of the source region, up to a complete burst."""
        geometry = self.geometry
        beats = source_beats(self.value_type, geometry.features, geometry.rows, geometry.outputs)
        return -(-beats // BURST_BEATS) * BURST_BEATS

    def with_sets(self, sets: range) -> Encoding:
        """Return the encoding of some of the draw sets; the first one has the base region."""
        return replace(self, writes_base=self.writes_base and sets.start == 0, seeds=self.seeds[sets.start : sets.stop])


def region_words(words: int) -> int:
    """Return the words from one draw region to the next, if an encoder writes them."""
    return -(-words * WORD_BYTES // REGION_BYTES) * REGION_BYTES // WORD_BYTES


def encoding_values(
    encoding: Encoding, samples: SampleBuffers, source_buffer: Buffer, first_set: int
) -> dict[str, int]:
    """Return the registers of an encoding whose first draw region is number `first_set` of its buffer."""
    geometry = encoding.geometry
    stride = region_words(geometry.draw_words) * WORD_BYTES
    mode = dict.fromkeys((field.name for field in REGISTERS["mode"].fields), 0)
    encode = {
        "value_type": int(encoding.value_type),
        "encode_base": int(encoding.writes_base),
        "encode_sets": len(encoding.seeds),
    }
    return {
        "irq_enable": 1,
        "mode": REGISTERS["mode"].pack(mode | {"base_digits": geometry.base_digits}),
        "features": geometry.features,
        "groups": geometry.groups,
        "base_address": samples.base.device_address if samples.base else 0,
        "draw_address": samples.draws.device_address + first_set * stride if samples.draws else 0,
        "draw_stride": stride,
        "source_address": source_buffer.device_address,
        "source_lines": encoding.source_words // BURST_BEATS,
        "encode": REGISTERS["encode"].pack(encode),
        **dict(zip(ENCODER_SEEDS, encoding.seeds, strict=False)),
    }
