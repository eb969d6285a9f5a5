"""A 64-bit memory port on one high-performance port of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane_hw.memory.axi import AXI4Read, AXI4Write

from .axi3 import HP_DATA_BITS, hp_signature
from .hp_port import WRITE_RESPONSE, ZYNQ_7000, port_to_stream, stream_to_port, tagged_read_layout, write_layout
from .port_guard import PortGuard
from .register_slice import RegisterSlice


class MemoryPort(wiring.Component):
    """Convert AXI4 with bursts of 1 to 16 words to AXI3.

    The bursts stay the same. Registers cut every channel; those of AW are in the `PortGuard`, which ends the bursts
    that a reset of the logic cuts off. Reads keep their IDs; writes have ID 0 on both sides.

    Latency: one cycle each for AR, R, AW, W and B. Throughput: one word a cycle in each direction, with as many bursts
    outstanding as the HP port accepts. Backpressure: passed on.

    Members
    -------
    read : AXI4Read of 64 bits, with 32-bit addresses, in
        Reads of the accelerator.
    write : AXI4Write of 64 bits, with 32-bit addresses, in
        Writes of the accelerator.
    hp0 : AXI3, out
        The HP port.
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
        m.submodules.guard = guard = PortGuard()
        connect(m, guard.hp, flipped(self.hp0))
        m.d.comb += guard.others_idle.eq(1)
        hp = guard.logic
        channels = (
            ("ar", ZYNQ_7000.tagged_address, self.read, hp),
            ("r", tagged_read_layout(HP_DATA_BITS), hp, self.read),
            ("w", write_layout(HP_DATA_BITS), self.write, hp),
            ("b", WRITE_RESPONSE, hp, self.write),
        )
        for prefix, layout, source, target in channels:
            m.submodules[prefix] = register_slice = RegisterSlice(layout)
            m.d.comb += [
                *port_to_stream(source, prefix, register_slice.input),
                *stream_to_port(register_slice.output, target, prefix),
            ]
        m.d.comb += [
            ZYNQ_7000.constant_signals(hp),
            hp.awaddr.eq(self.write.awaddr),
            hp.awlen.eq(self.write.awlen),
            hp.awvalid.eq(self.write.awvalid),
            self.write.awready.eq(hp.awready),
        ]
        return m
