"""The AXI4 read master: the run's beats from memory, in two streams."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.payloads import base_bits, settings_layout

from .address_generator import AddressGenerator
from .axi import INCR, OKAY, AXI4Read, full_size
from .burst_generator import BASE, DRAW, BurstGenerator, region_layout


class Reader(wiring.Component):
    """Reads the models and the sets, several bursts outstanding, into two FIFOs.

    A burst is asked for when a beat of it is first needed in the run's order, as far ahead as
    the FIFOs (`fifo_beats` each) have room. Beats keep coming one a cycle as long as the memory's latency is
    below `fifo_beats - 48` cycles. Data is always accepted: a FIFO has room for all that was asked for.

    A response that is not OKAY is reported in `response`; the owner then lowers `enable`. `idle` says that
    nothing is asked for or in flight. A reset is allowed only then.

    Members
    -------
    enable: In(1), ask for bursts.
    load: In(1), take the regions from the registers; one cycle before `enable` rises.
    settings, model, regions, draw_sets: In, the run.
    beats: Out, two streams of beats: base (models, labels, base digits) and draw.
    response: Out(2), the last read response that was not OKAY, or OKAY.
    accepted: Out(1), a beat has been accepted.
    idle: Out(1).
    axi: Out, AXI4Read.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "enable": In(1),
                "load": In(1),
                "settings": In(settings_layout(config)),
                "model": In(config.address_bits),
                "regions": In(region_layout(config)).array(2),
                "draw_sets": In(32),
                "beats": Out(stream.Signature(config.width)).array(2),
                "response": Out(2),
                "accepted": Out(1),
                "idle": Out(1),
                "axi": Out(AXI4Read(config.address_bits, config.width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, axi = self._config, self.axi
        m.submodules.walker = walker = AddressGenerator(config)
        m.submodules.requester = requester = BurstGenerator(config)
        connect(m, walker.tokens, requester.tokens)
        m.d.comb += [
            walker.settings.eq(self.settings),
            requester.enable.eq(self.enable),
            requester.load.eq(self.load),
            requester.model.eq(self.model),
            requester.chunks.eq(self.settings.chunks),
            requester.draw_sets.eq(self.draw_sets),
        ]

        if config.table_lanes:
            chunks = self.settings.chunks
            m.d.comb += requester.level_chunks.eq((chunks << base_bits(self.settings)) + chunks)

        burst = requester.bursts
        m.d.comb += [
            axi.arvalid.eq(burst.valid),
            burst.ready.eq(axi.arready),
            axi.araddr.eq(burst.payload.address),
            axi.arlen.eq(burst.payload.beats - 1),
            axi.arid.eq(burst.payload.stream),
            axi.arsize.eq(full_size(config.width)),
            axi.arburst.eq(INCR),
            axi.rready.eq(1),
        ]
        outstanding = Signal(range(2 * config.fifo_beats + 1))
        m.d.comb += [
            self.accepted.eq(axi.rvalid),
            self.idle.eq(~burst.valid & (outstanding == 0)),
        ]
        m.d.sync += outstanding.eq(outstanding + (axi.arvalid & axi.arready) - (axi.rvalid & axi.rready & axi.rlast))
        with m.If(axi.rvalid & (axi.rresp != OKAY)):
            m.d.sync += self.response.eq(axi.rresp)

        for i in (BASE, DRAW):
            buffer = fifo.SyncFIFOBuffered(width=config.width, depth=config.fifo_beats)
            m.submodules[f"fifo_{i}"] = buffer
            connect(m, buffer.r_stream, flipped(self.beats[i]))
            m.d.comb += [
                requester.regions[i].eq(self.regions[i]),
                requester.returned[i].eq(self.beats[i].valid & self.beats[i].ready),
                buffer.w_stream.payload.eq(axi.rdata),
                buffer.w_stream.valid.eq(axi.rvalid & (axi.rid == i)),
            ]
        return m
