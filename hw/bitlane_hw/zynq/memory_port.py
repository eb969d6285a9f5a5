"""A 64-bit memory port on one high-performance port of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.memory.axi import AXI4Read, AXI4Write

from .axi3 import (
    ANSWER,
    HP_DATA_BITS,
    TAGGED_ADDRESS,
    hp_signature,
    into_stream,
    out_of_stream,
    tagged_read_layout,
    whole_words,
    write_layout,
)
from .register_slice import RegisterSlice


class MemoryPort(wiring.Component):
    """AXI4 with bursts of 1 to 16 words to AXI3: the same bursts, every channel but AW cut by registers.

    Reads keep their IDs; writes have ID 0, on both sides. AW is passed on as it is, so that data, which follows its
    address on the AXI4 side, does so at the HP port.

    Latency: a cycle each for AR, R, W and B. Throughput: a word a cycle each way, with as many bursts under way as the
    HP port takes.

    Members
    -------
    read, write: In, AXI4 of 64 bits, with 32-bit addresses.
    hp0: Out, AXI3.
    """

    def __init__(self):
        super().__init__(
            {
                "read": In(AXI4Read(32, HP_DATA_BITS)),
                "write": In(AXI4Write(32, HP_DATA_BITS)),
                "hp0": Out(hp_signature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        hp = self.hp0
        channels = (
            ("ar", TAGGED_ADDRESS, self.read, hp),
            ("r", tagged_read_layout(HP_DATA_BITS), hp, self.read),
            ("w", write_layout(HP_DATA_BITS), self.write, hp),
            ("b", ANSWER, hp, self.write),
        )
        for prefix, layout, source, target in channels:
            m.submodules[prefix] = cut = RegisterSlice(layout)
            m.d.comb += [*into_stream(source, prefix, cut.put), *out_of_stream(cut.got, target, prefix)]
        m.d.comb += [
            whole_words(hp),
            hp.awaddr.eq(self.write.awaddr),
            hp.awlen.eq(self.write.awlen),
            hp.awvalid.eq(self.write.awvalid),
            self.write.awready.eq(hp.awready),
        ]
        return m
