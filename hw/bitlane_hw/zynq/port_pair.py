"""A memory port on two high-performance ports of half its width."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane_hw.memory.axi import AXI4Read, AXI4Write

from .downsizer import BURST, BeatDownsizer, BurstDownsizer
from .hp_port import (
    WRITE_RESPONSE,
    ZYNQ_7000,
    HpPort,
    port_to_stream,
    read_layout,
    stream_to_port,
    tagged_read_layout,
    write_layout,
)
from .port_guard import PortGuard
from .register_slice import RegisterSlice
from .upsizer import BurstUpsizer, WordUpsizer

MAX_BURSTS = 32  # outstanding bursts: cover a latency of 32 cycles even if each burst has one beat
FIFO_BEATS = 16  # beats of a port that wait for the other port; each of them has at most 8 beats of a burst


class PortPair(wiring.Component):
    """Convert AXI4 with bursts of 1 to 16 beats to two ports of half the width, with the same memory layout.

    A `BurstDownsizer` splits each read into two halves, one for each port. Their words are combined into beats, which
    leave in the order of the requests, whatever their IDs. A long stream of full bursts keeps both ports busy: after
    the first beat it runs at one beat a cycle, if each port delivers one word a cycle. Writes are rare; they use the
    first port, with ID 0. A beat has the worse response of its two words. A `PortGuard` at each port ends the bursts
    that a reset of the logic cuts off.

    Latency: 2 cycles from AR to the ports, 3 from the second word of a beat to R, 1 for AW, W and B. Throughput: one
    beat a cycle for reads, one beat in two cycles for writes. Backpressure: a port whose beats wait for those of the
    other port is stopped when `FIFO_BEATS` of them wait. The beats of the other port never wait for them, so that there
    is no deadlock.

    Parameters
    ----------
    port : HpPort, default=ZYNQ_7000
        The kind of port.

    Members
    -------
    read : AXI4Read of twice the width of the port, in
        Reads of the accelerator.
    write : AXI4Write of twice the width, in
        Writes of the accelerator, of at most 8 beats.
    hp0 : AXI3 or AXI4, out
        First HP port.
    hp1 : AXI3 or AXI4, out
        Second HP port. It never writes.
    """

    def __init__(self, port: HpPort = ZYNQ_7000):
        self.port = port
        super().__init__(
            {
                "read": In(AXI4Read(port.address_bits, 2 * port.data_bits)),
                "write": In(AXI4Write(port.address_bits, 2 * port.data_bits)),
                "hp0": Out(port.signature),
                "hp1": Out(port.signature),
            }
        )

    def elaborate(self, platform):
        m = Module()
        guards = PortGuard(self.port), PortGuard(self.port)
        for i, (guard, other, hp) in enumerate(zip(guards, reversed(guards), (self.hp0, self.hp1), strict=True)):
            m.submodules[f"guard{i}"] = guard
            connect(m, guard.hp, flipped(hp))
            m.d.comb += [self.port.constant_signals(guard.logic), guard.others_idle.eq(other.idle)]
        ports = [guard.logic for guard in guards]
        self._read(m, ports)
        self._write(m, ports[0])
        return m

    def _read(self, m, ports):
        port, bits = self.port, self.port.data_bits
        m.submodules.ar = requests = RegisterSlice(port.tagged_address)
        m.submodules.downsizer = downsizer = BurstDownsizer(port)
        m.submodules.order = order = fifo.SyncFIFO(width=BURST.size, depth=MAX_BURSTS)
        m.submodules.upsizer = upsizer = BurstUpsizer(port)
        m.submodules.r = responses = RegisterSlice(tagged_read_layout(2 * bits))
        m.d.comb += [
            *port_to_stream(self.read, "ar", requests.input),
            *stream_to_port(responses.output, self.read, "r"),
        ]
        connect(m, requests.output, downsizer.bursts)
        connect(m, upsizer.beats, responses.input)
        _through_fifo(m, downsizer.order, order, upsizer.bursts)
        for i, (hp, half, returned) in enumerate(
            ((ports[0], downsizer.first, upsizer.first), (ports[1], downsizer.second, upsizer.second))
        ):
            m.submodules[f"ar{i}"] = address = RegisterSlice(port.address)
            m.submodules[f"r{i}"] = words = RegisterSlice(read_layout(bits))
            m.submodules[f"words{i}"] = upsized = WordUpsizer(port)
            m.submodules[f"beats{i}"] = beats = fifo.SyncFIFO(width=read_layout(2 * bits).size, depth=FIFO_BEATS)
            connect(m, half, address.input)
            connect(m, words.output, upsized.words)
            m.d.comb += [*stream_to_port(address.output, hp, "ar"), *port_to_stream(hp, "r", words.input)]
            _through_fifo(m, upsized.beats, beats, returned)

    def _write(self, m, hp):
        write = self.write
        m.submodules.write_downsizer = downsizer = BeatDownsizer(self.port)
        m.submodules.w = words = RegisterSlice(write_layout(self.port.data_bits))
        m.submodules.b = write_responses = RegisterSlice(WRITE_RESPONSE)
        connect(m, downsizer.words, words.input)
        m.d.comb += [
            *port_to_stream(write, "w", downsizer.beats),
            *stream_to_port(words.output, hp, "w"),
            *port_to_stream(hp, "b", write_responses.input),
            *stream_to_port(write_responses.output, write, "b"),
            hp.awaddr.eq(write.awaddr),
            hp.awlen.eq(Cat(1, write.awlen)),  # two words for each beat
            hp.awvalid.eq(write.awvalid),
            write.awready.eq(hp.awready),
        ]


def _through_fifo(m, source, buffer, target):
    """Connect two streams of the same shape through a FIFO of raw bits."""
    m.d.comb += [
        buffer.w_data.eq(source.payload.as_value()),
        buffer.w_en.eq(source.valid),
        source.ready.eq(buffer.w_rdy),
        target.payload.as_value().eq(buffer.r_data),
        target.valid.eq(buffer.r_rdy),
        buffer.r_en.eq(target.ready),
    ]
