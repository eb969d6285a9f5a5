"""An encoding by the accelerator: its inputs and its registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bitlane.contract.draws import DrawSet
from bitlane.contract.encoding import ValueType, source_beats
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import BURST_BEATS, WORD_BYTES
from bitlane.contract.registers import REGISTERS, SOURCE_ADDRESS, of_port

from .buffers import PortBuffers, SampleBuffers, SourceBuffers


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
    sets : sequence of DrawSet
        The draw sets to write, with their seeds plus INDEX_STEP for each row before the first.
    """

    geometry: Geometry
    value_type: ValueType
    writes_base: bool
    sets: Sequence[DrawSet]

    @property
    def source_words(self) -> int:
        """Words of the source region on all ports, up to a complete burst."""
        shape = self.geometry
        return _whole_bursts(
            source_beats(self.value_type, shape.features, shape.groups, shape.outputs, shape.shards), shape
        )

    def starts(self, at_a_time: int) -> Iterator[tuple[int, Encoding]]:
        """Yield the encodings that an encoder for so many draw sets does one after the other, each with the number of
        its first set. The first one writes the base region.
        """
        for sets in set_runs(self.sets, at_a_time):
            part = self.sets[sets.start : sets.stop]
            yield sets.start, replace(self, writes_base=self.writes_base and sets.start == 0, sets=part)


def set_runs(sets: Sequence[DrawSet], at_a_time: int) -> Iterator[range]:
    """Yield the indices of draw sets that an encoder makes at a time: consecutive ones of a group, at most `at_a_time`.

    Without any there is one empty range.
    """
    first = 0
    for last, each in enumerate(sets, start=1):
        follows = last < len(sets) and sets[last] == DrawSet(each.seed, each.number + 1)
        if not follows or last - first == at_a_time:
            yield range(first, last)
            first = last
    if not sets:
        yield range(0)


def region_words(geometry: Geometry) -> int:
    """Return the words on all ports from one draw region to the next, if an encoder writes them."""
    return _whole_bursts(geometry.draw_beats, geometry)


def _whole_bursts(beats: int, geometry: Geometry) -> int:
    """Return the words of so many beats, up to a complete burst."""
    return -(-beats // BURST_BEATS) * BURST_BEATS * geometry.words_per_beat


def encoding_values(encoding: Encoding, samples: SampleBuffers, raw: SourceBuffers, first_set: int) -> dict[str, int]:
    """Return the registers of an encoding whose first draw region is number `first_set` of its buffer."""
    geometry = encoding.geometry
    stride = region_words(geometry) * WORD_BYTES // geometry.ports
    batch_tail, epoch_tail = geometry.tails
    mode = dict.fromkeys((field.name for field in REGISTERS["mode"].fields), 0)
    mode |= {"base_digits": geometry.base_digits, "batch_tail": batch_tail, "epoch_tail": epoch_tail}
    encode = {
        "value_type": int(encoding.value_type),
        "encode_base": int(encoding.writes_base),
        "encode_sets": len(encoding.sets),
        "encode_first": encoding.sets[0].number if encoding.sets else 0,
    }
    return {
        "irq_enable": 1,
        "mode": REGISTERS["mode"].pack(mode),
        "features": geometry.features,
        "groups": geometry.groups,
        "batch_groups": geometry.batch_groups,
        **_port_addresses("base_address", samples.base, geometry.ports),
        **_port_addresses("draw_address", samples.draws, geometry.ports, first_set * stride),
        "draw_stride": stride,
        **_port_addresses(SOURCE_ADDRESS, raw.source, geometry.ports),
        "source_lines": encoding.source_words // geometry.words_per_beat // BURST_BEATS,
        "encode": REGISTERS["encode"].pack(encode),
        "encode_seed": encoding.sets[0].seed if encoding.sets else 0,
    }


def _port_addresses(name: str, buffers: PortBuffers, ports: int, offset: int = 0) -> dict[str, int]:
    """Return the address registers of a region on each port, 0 without buffers."""
    return {of_port(name, port): buffers[port].device_address + offset if buffers else 0 for port in range(ports)}
