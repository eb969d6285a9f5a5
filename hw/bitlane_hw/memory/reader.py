"""The AXI4 read master."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.payloads import base_bits, settings_layout

from .address_generator import AddressGenerator
from .axi import INCR, OKAY, AXI4Read, full_size
from .burst_generator import BASE, DRAW, BurstGenerator, region_layout


class Reader(wiring.Component):
    """Read the part of a port of the models and the sets of a run into two FIFOs, with several bursts outstanding.

    A burst is requested when the first of its beats is next in the order of the run, as early as the FIFOs
    (`fifo_beats` each) have room. Data is always accepted, because a FIFO has room for everything that was requested. A
    beat that arrives while no burst is outstanding is dropped: it answers a burst from before a reset.

    Throughput: one beat a cycle as long as the latency of the memory is below `fifo_beats - 48` cycles, with several
    ports 3 less, because a take comes later. Backpressure: a stream that is not consumed stops the requests of that
    stream. A response that is not OKAY appears in `response`; the owner must then lower `enable`. `idle` means that no
    burst is requested or outstanding; only then may the block be reset.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    enable : 1 bit, in
        Request bursts.
    load : 1 bit, in
        Take the regions from the registers. Addresses, strides and sizes of the models must be constant for two cycles
        before. Must be high one cycle before `enable` rises.
    settings : settings_layout, in
        Geometry of the run.
    model : address_bits, in
        Address of the models.
    regions : array of 2 region_layout, in
        The regions of the base stream and of the draw stream.
    draw_sets : 32 bits, in
        Number of sets.
    beats : array of 2 streams of beats, out
        Base stream (models, labels, base digits) and draw stream.
    arrived : 2 bits, out
        A beat of the base stream, or of the draw stream, arrives. Only with several ports.
    response : 2 bits, out
        The last read response that was not OKAY; OKAY if there was none.
    accepted : 1 bit, out
        A beat was accepted.
    idle : 1 bit, out
        No burst is requested or outstanding.
    axi : AXI4Read, out
        The memory port.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        arrived = {"arrived": Out(2)} if config.ports > 1 else {}
        super().__init__(
            {
                "enable": In(1),
                "load": In(1),
                "settings": In(settings_layout(config)),
                "model": In(config.address_bits),
                "regions": In(region_layout(config)).array(2),
                "draw_sets": In(32),
                "beats": Out(stream.Signature(config.port_width)).array(2),
                **arrived,
                "response": Out(2),
                "accepted": Out(1),
                "idle": Out(1),
                "axi": Out(AXI4Read(config.address_bits, config.port_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, axi = self._config, self.axi
        m.submodules.address_generator = address_generator = AddressGenerator(config)
        m.submodules.burst_generator = burst_generator = BurstGenerator(config)
        connect(m, address_generator.tokens, burst_generator.tokens)
        m.d.comb += [
            address_generator.settings.eq(self.settings),
            burst_generator.enable.eq(self.enable),
            burst_generator.load.eq(self.load),
            burst_generator.model.eq(self.model),
            burst_generator.chunks.eq(self.settings.chunks),
            burst_generator.draw_sets.eq(self.draw_sets),
        ]

        if config.table_lanes:
            chunks = self.settings.chunks
            m.d.comb += burst_generator.level_chunks.eq((chunks << base_bits(self.settings)) + chunks)

        burst = burst_generator.bursts
        m.d.comb += [
            axi.arvalid.eq(burst.valid),
            burst.ready.eq(axi.arready),
            axi.araddr.eq(burst.payload.address),
            axi.arlen.eq(burst.payload.beats - 1),
            axi.arid.eq(burst.payload.stream),
            axi.arsize.eq(full_size(config.port_width)),
            axi.arburst.eq(INCR),
            axi.rready.eq(1),
        ]
        outstanding = Signal(range(2 * config.fifo_beats + 1))
        arrives = Signal()
        m.d.comb += [
            arrives.eq(axi.rvalid & (outstanding != 0)),
            self.accepted.eq(arrives),
            self.idle.eq(~burst.valid & (outstanding == 0)),
        ]
        m.d.sync += outstanding.eq(outstanding + (axi.arvalid & axi.arready) - (arrives & axi.rlast))
        with m.If(arrives & (axi.rresp != OKAY)):
            m.d.sync += self.response.eq(axi.rresp)

        for i in (BASE, DRAW):
            buffer = fifo.SyncFIFOBuffered(width=config.port_width, depth=config.fifo_beats)
            m.submodules[f"fifo_{i}"] = buffer
            room = ~buffer.w_stream.valid | buffer.w_stream.ready
            expect(m, platform, room, f"a beat arrives for stream {i}, and its FIFO is full")
            connect(m, buffer.r_stream, flipped(self.beats[i]))
            m.d.comb += [
                burst_generator.regions[i].eq(self.regions[i]),
                burst_generator.returned[i].eq(self.beats[i].valid & self.beats[i].ready),
                buffer.w_stream.payload.eq(axi.rdata),
                buffer.w_stream.valid.eq(arrives & (axi.rid == i)),
            ]
            if config.ports > 1:
                m.d.comb += self.arrived[i].eq(buffer.w_stream.valid)
        return m
