"""The encoder of a memory port: from a source region in memory to a base region and draw regions in memory."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.payloads import request_layout
from bitlane_hw.common.signatures import Bursts
from bitlane_hw.memory.axi import AXI4Read, AXI4Write
from bitlane_hw.memory.writer import Writer

from .beat_words import port_words
from .core import EncoderCore
from .payloads import encoder_layout
from .region_buffer import RegionBuffer
from .source_reader import LINES_BITS, SourceReader


class Encoder(wiring.Component):
    """Encode the rows of a source region, with the bits of the host's encoder (`docs/design.md`, "Encoder").

    Each memory port has an encoder of its own, for its words of every beat. They share nothing but the settings.

    A run begins with a reset and `load`. It reads the source region once, and writes a base region, if wanted, and as
    many draw regions as `settings.sets` says. An error response appears in `reads` or `writes`; the
    owner must then lower `enable`. The block may be reset while both ports are idle.

    Throughput: as `EncoderCore`; a written burst takes one cycle more than its beats. Backpressure: both ports may wait
    at any time.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with an encoder.
    port_number : int, default=0
        Number of the memory port.

    Members
    -------
    settings : encoder_layout, in
        Constant from the first cycle of `load`.
    seed : 32 bits, in
        Seed of the group of the draw sets: see `RowWord`.
    source : address_bits, in
        Address of the source region, a multiple of a burst.
    lines : 32 bits, in
        Bursts of 16 beats in the source region.
    regions : array of address_bits, in
        Addresses of the base region and of each draw region, multiples of a burst.
    load : 1 bit, in
        Take seed and addresses. High for two cycles or more before `enable` rises.
    enable : 1 bit, in
        Read and write.
    done : 1 bit, out
        All words are written and answered.
    exhausted : 1 bit, out
        The source region has fewer beats than its rows need.
    beats : 64 bits, out
        Beats that were read.
    reads, writes : Bursts, out
        The bursts of the port in each direction.
    read : AXI4Read, out
        Read channels of the memory port.
    write : AXI4Write, out
        Write channels of the memory port.
    """

    def __init__(self, config: AcceleratorConfig, port_number: int = 0):
        self._config, self._port_number = config, port_number
        sets, features = config.encoder, config.max_features // config.shards
        self._sizes = features, ENCODER_BASE_BITS, sets, config.outputs
        address = config.address_bits
        super().__init__(
            {
                "settings": In(encoder_layout(features, ENCODER_BASE_BITS, sets, config.rows_per_beat)),
                "seed": In(SEED_BITS),
                "source": In(address),
                "lines": In(LINES_BITS),
                "regions": In(address).array(sets + 1),
                "load": In(1),
                "enable": In(1),
                "done": Out(1),
                "exhausted": Out(1),
                "beats": Out(64),
                "reads": Out(Bursts()),
                "writes": Out(Bursts()),
                "read": Out(AXI4Read(address, config.port_width)),
                "write": Out(AXI4Write(address, config.port_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        width, places = config.port_width, port_words(config, self._port_number)
        m.submodules.reader = reader = SourceReader(config.address_bits, config.fifo_beats, width)
        m.submodules.core = core = EncoderCore(*self._sizes, places, config.rows_per_beat, config.shards)
        m.submodules.buffer = buffer = RegionBuffer(
            config.address_bits, len(self.regions), request_layout(config), width
        )
        m.submodules.writer = writer = Writer(config)
        connect(m, reader.beats, core.beats)
        for words, taken in zip(core.words, buffer.words, strict=True):
            connect(m, words, taken)
        connect(m, buffer.beats, writer.beats)
        connect(m, reader.axi, flipped(self.read))
        connect(m, writer.axi, flipped(self.write))
        flushed, accepted = Signal(), Signal()
        m.d.sync += [accepted.eq(reader.accepted), self.beats.eq(self.beats + accepted)]
        m.d.sync += flushed.eq(core.done & buffer.empty)
        m.d.comb += [
            reader.load.eq(self.load),
            reader.enable.eq(self.enable & ~core.last_taken),
            reader.address.eq(self.source),
            reader.lines.eq(self.lines),
            core.settings.eq(self.settings),
            core.begin.eq(self.load),
            core.enable.eq(self.enable),
            core.room.eq(buffer.room),
            core.seed.eq(self.seed),
            buffer.load.eq(self.load),
            buffer.flush.eq(core.done),
            *(inner.eq(outer) for inner, outer in zip(buffer.addresses, self.regions, strict=True)),
            writer.requests.payload.eq(buffer.requests.payload),
            writer.requests.valid.eq(buffer.requests.valid & self.enable),
            buffer.requests.ready.eq(writer.requests.ready & self.enable),
            self.done.eq(flushed & writer.idle & reader.idle),
            self.exhausted.eq(self.enable & reader.exhausted & ~core.last_taken),
            self.reads.response.eq(reader.response),
            self.writes.response.eq(writer.response),
            self.reads.idle.eq(reader.idle),
            self.writes.idle.eq(writer.idle),
        ]
        return m
