"""A 128-bit memory port on two high-performance ports of a Zynq-7000."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out, connect

from bitlane_hw.memory.axi import AXI4Read, AXI4Write

from .axi3 import (
    ADDRESS,
    ANSWER,
    HP_DATA_BITS,
    TAGGED_ADDRESS,
    hp_signature,
    into_stream,
    out_of_stream,
    read_layout,
    tagged_read_layout,
    whole_words,
    write_layout,
)
from .downsizer import BURST, BeatDownsizer, BurstDownsizer
from .register_slice import RegisterSlice
from .upsizer import BEAT, BurstUpsizer, WordUpsizer

BURSTS = 32  # under way: covers a latency of as many cycles even where each burst has one beat
BEATS = 16  # of a port that wait for those of the other: a burst has 8 of each, and half of them come meanwhile


class PortPair(wiring.Component):
    """AXI4 with bursts of 1 to 16 beats of 128 bits to two AXI3 ports of 64 bits; memory looks the same.

    A read is cut into two halves, one for each port (`BurstSplitter`), whose words are joined to beats and leave in
    the order of the requests, whatever their IDs. So a long stream of whole bursts keeps both ports busy: a beat a
    cycle, once the first has come, where each port gives a word a cycle. Writes, which are rare, go to the first port
    alone, with ID 0. A beat of which either word failed has the worse response.

    A port whose beats wait for the other's is told to wait when `BEATS` of them do. The other's never wait for them, so
    that nothing waits for ever.

    Latency: 2 cycles from AR to the ports, 3 from a beat's second word to R, 1 for W and B.

    Members
    -------
    read, write: In, AXI4 of 128 bits, with 32-bit addresses; writes of 8 beats at most.
    hp0, hp1: Out, AXI3; hp1 never writes.
    """

    def __init__(self):
        super().__init__(
            {
                "read": In(AXI4Read(32, 2 * HP_DATA_BITS)),
                "write": In(AXI4Write(32, 2 * HP_DATA_BITS)),
                "hp0": Out(hp_signature()),
                "hp1": Out(hp_signature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._read(m)
        self._write(m)
        m.d.comb += [whole_words(self.hp0), whole_words(self.hp1)]
        return m

    def _read(self, m):
        m.submodules.ar = asked = RegisterSlice(TAGGED_ADDRESS)
        m.submodules.splitter = splitter = BurstDownsizer()
        m.submodules.order = order = fifo.SyncFIFO(width=BURST.size, depth=BURSTS)
        m.submodules.joiner = joiner = BurstUpsizer()
        m.submodules.r = got = RegisterSlice(tagged_read_layout(2 * HP_DATA_BITS))
        m.d.comb += [*into_stream(self.read, "ar", asked.put), *out_of_stream(got.got, self.read, "r")]
        connect(m, asked.got, splitter.bursts)
        connect(m, joiner.beats, got.put)
        _through(m, splitter.order, order, joiner.bursts)
        for i, (hp, part, back) in enumerate(
            ((self.hp0, splitter.first, joiner.first), (self.hp1, splitter.second, joiner.second))
        ):
            m.submodules[f"ar{i}"] = address = RegisterSlice(ADDRESS)
            m.submodules[f"r{i}"] = words = RegisterSlice(read_layout(HP_DATA_BITS))
            m.submodules[f"words{i}"] = joined = WordUpsizer()
            m.submodules[f"beats{i}"] = beats = fifo.SyncFIFO(width=BEAT.size, depth=BEATS)
            connect(m, part, address.put)
            connect(m, words.got, joined.words)
            m.d.comb += [*out_of_stream(address.got, hp, "ar"), *into_stream(hp, "r", words.put)]
            _through(m, joined.beats, beats, back)

    def _write(self, m):
        write, hp = self.write, self.hp0
        m.submodules.splitter_w = splitter = BeatDownsizer()
        m.submodules.w = words = RegisterSlice(write_layout(HP_DATA_BITS))
        m.submodules.b = answers = RegisterSlice(ANSWER)
        connect(m, splitter.words, words.put)
        m.d.comb += [
            *into_stream(write, "w", splitter.beats),
            *out_of_stream(words.got, hp, "w"),
            *into_stream(hp, "b", answers.put),
            *out_of_stream(answers.got, write, "b"),
            hp.awaddr.eq(write.awaddr),
            hp.awlen.eq(Cat(1, write.awlen)),  # twice the beats
            hp.awvalid.eq(write.awvalid),
            write.awready.eq(hp.awready),
        ]


def _through(m, source, buffer, target):
    """From a stream through a FIFO of raw bits to a stream of the same shape."""
    m.d.comb += [
        buffer.w_data.eq(source.payload.as_value()),
        buffer.w_en.eq(source.valid),
        source.ready.eq(buffer.w_rdy),
        target.payload.as_value().eq(buffer.r_data),
        target.valid.eq(buffer.r_rdy),
        buffer.r_en.eq(target.ready),
    ]
