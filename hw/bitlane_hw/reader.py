"""The AXI4 read master: the run's words from memory, in two streams."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import INCR, OKAY, WORD_SIZE, AXI4Read
from .config import AcceleratorConfig
from .contract import WORD_BITS
from .payloads import settings_layout
from .requester import BASE, DRAW, Requester, region_layout
from .walker import Walker


class Reader(wiring.Component):
    """Reads the model and the sets, several bursts outstanding, into two FIFOs.

    A burst is asked for when a word of it is first needed in the run's order, as far ahead as
    the FIFOs (`fifo_words` each) have room. Words keep coming one a cycle as long as the memory's latency is
    below `fifo_words - 48` cycles. Data is always accepted: a FIFO has room for all that was asked for.

    A response that is not OKAY is reported in `response`; the owner then lowers `enable`. `idle` says that
    nothing is asked for or in flight. A reset is allowed only then.

    Members
    -------
    enable: In(1), ask for bursts.
    load: In(1), take the regions from the registers; one cycle before `enable` rises.
    settings, model, regions, sets: In, the run.
    words: Out, two streams of 64-bit words: base (model, labels, base digits) and draw.
    response: Out(2), the last read response that was not OKAY, or OKAY.
    beat: Out(1), a beat has been accepted.
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
                "sets": In(32),
                "words": Out(stream.Signature(WORD_BITS)).array(2),
                "response": Out(2),
                "beat": Out(1),
                "idle": Out(1),
                "axi": Out(AXI4Read(config.address_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, axi = self._config, self.axi
        m.submodules.walker = walker = Walker(config)
        m.submodules.requester = requester = Requester(config)
        connect(m, walker.tokens, requester.tokens)
        m.d.comb += [
            walker.settings.eq(self.settings),
            requester.enable.eq(self.enable),
            requester.load.eq(self.load),
            requester.model.eq(self.model),
            requester.chunks.eq(self.settings.chunks),
            requester.sets.eq(self.sets),
        ]

        burst = requester.bursts
        m.d.comb += [
            axi.arvalid.eq(burst.valid),
            burst.ready.eq(axi.arready),
            axi.araddr.eq(burst.payload.address),
            axi.arlen.eq(burst.payload.words - 1),
            axi.arid.eq(burst.payload.stream),
            axi.arsize.eq(WORD_SIZE),
            axi.arburst.eq(INCR),
            axi.rready.eq(1),
        ]
        outstanding = Signal(range(2 * config.fifo_words + 1))
        m.d.comb += [
            self.beat.eq(axi.rvalid),
            self.idle.eq(~burst.valid & (outstanding == 0)),
        ]
        m.d.sync += outstanding.eq(outstanding + (axi.arvalid & axi.arready) - (axi.rvalid & axi.rready & axi.rlast))
        with m.If(axi.rvalid & (axi.rresp != OKAY)):
            m.d.sync += self.response.eq(axi.rresp)

        for i in (BASE, DRAW):
            buffer = fifo.SyncFIFOBuffered(width=WORD_BITS, depth=config.fifo_words)
            m.submodules[f"fifo_{i}"] = buffer
            connect(m, buffer.r_stream, flipped(self.words[i]))
            m.d.comb += [
                requester.regions[i].eq(self.regions[i]),
                requester.returned[i].eq(self.words[i].valid & self.words[i].ready),
                buffer.w_stream.payload.eq(axi.rdata),
                buffer.w_stream.valid.eq(axi.rvalid & (axi.rid == i)),
            ]
        return m
