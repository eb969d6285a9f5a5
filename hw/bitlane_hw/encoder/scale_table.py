"""The scales of the features of a part, read at the rate of the parts."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bitlane.contract.encoding import ENCODER_LANES, ENTRY_WORDS, position_bits
from bitlane.contract.layout import WORD_BITS
from bitlane_hw.common.fixed_point import delay

from .payloads import factor_layout


class ScaleTable(wiring.Component):
    """Hold multiplier, shift and offset of each feature, and read those of the four features of a part.

    A feature has two beats: multiplier and shift (`factor_layout`), then the offset. Offsets are read later than
    factors, so that nothing delays them.

    Latency: factors one cycle after `index`, offsets `offset_delay` cycles after the factors. Throughput: one part a
    cycle. No backpressure.

    Parameters
    ----------
    max_features : int
        Features of a row, at most.
    base_bits : int
        Base bits, at most: the width of an offset is `position_bits`.
    offset_delay : int
        At least 1.

    Members
    -------
    write : 1 bit, in
        A beat of the table.
    beat : 64 bits, in
        The beat.
    beat_index : unsigned, in
        Its index.
    index : unsigned, in
        Index of the part to read.
    factors : array of 4 factor_layout, out
        Factors of the part.
    offsets : array of 4 signed values, out
        Offsets of the part.
    """

    def __init__(self, max_features: int, base_bits: int, offset_delay: int):
        self._parts = max_features // ENCODER_LANES
        self._offset_delay = offset_delay
        self._offset_bits = position_bits(base_bits)
        super().__init__(
            {
                "write": In(1),
                "beat": In(WORD_BITS),
                "beat_index": In(range(max_features * ENTRY_WORDS)),
                "index": In(range(self._parts)),
                "factors": Out(factor_layout()).array(ENCODER_LANES),
                "offsets": Out(self._offset_bits).array(ENCODER_LANES),
            }
        )

    def elaborate(self, platform):
        m = Module()
        later = delay(m, self.index, self._offset_delay, "index")
        which = Signal(ENCODER_LANES.bit_length())  # a beat among those of a part: its lane, and whether an offset
        m.d.comb += which.eq(self.beat_index)
        for kind, outputs, shape, index in (
            (0, self.factors, factor_layout(), self.index),
            (1, self.offsets, self._offset_bits, later),
        ):
            for lane, output in enumerate(outputs):
                memory = Memory(shape=shape, depth=self._parts, init=[])
                m.submodules[f"{('factors', 'offsets')[kind]}_{lane}"] = memory
                write, read = memory.write_port(), memory.read_port()
                value = write.data if kind else write.data.as_value()
                m.d.comb += [
                    write.addr.eq(self.beat_index >> len(which)),
                    value.eq(self.beat),
                    write.en.eq(self.write & (which == ENTRY_WORDS * lane + kind)),
                    read.addr.eq(index),
                    output.eq(read.data),
                ]
        return m
