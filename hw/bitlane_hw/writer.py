"""The AXI4 write master: models and trace records to memory."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .axi import INCR, OKAY, WORD_SIZE, AXI4Write
from .config import AcceleratorConfig
from .contract import BURST_WORDS, WORD_BITS, WORD_BYTES
from .payloads import request_layout


class Writer(wiring.Component):
    """Writes bursts of 1 to 16 words, one after the other, responses outstanding.

    A request is taken when the last one's words are gone; its address goes first, then its words, one a cycle.
    A request never crosses 4 KiB: the caller's are aligned to their size. `idle` says that all is written and
    answered.

    Members
    -------
    requests: In, stream of address and words.
    words: In, stream of 64-bit words, as many as asked for.
    response: Out(2), the last response that was not OKAY, or OKAY.
    idle: Out(1).
    axi: Out, AXI4Write.
    """

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "requests": In(stream.Signature(request_layout(config))),
                "words": In(stream.Signature(WORD_BITS, always_valid=True)),
                "response": Out(2),
                "idle": Out(1),
                "axi": Out(AXI4Write(config.address_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi, request = self.axi, self.requests.payload
        left = Signal(range(BURST_WORDS + 1))
        outstanding = Signal(16)
        m.d.comb += [
            self.requests.ready.eq(~axi.awvalid & (left == 0)),
            self.idle.eq(self.requests.ready & (outstanding == 0)),
            axi.awsize.eq(WORD_SIZE),
            axi.awburst.eq(INCR),
            axi.wdata.eq(self.words.payload),
            axi.wstrb.eq((1 << WORD_BYTES) - 1),
            axi.wlast.eq(left == 1),
            axi.wvalid.eq((left != 0) & ~axi.awvalid),
            self.words.ready.eq(axi.wvalid & axi.wready),
            axi.bready.eq(1),
        ]
        taken = self.requests.valid & self.requests.ready
        with m.If(taken):
            m.d.sync += [
                axi.awvalid.eq(1),
                axi.awaddr.eq(request.address),
                axi.awlen.eq(request.words - 1),
                left.eq(request.words),
            ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(self.words.ready):
            m.d.sync += left.eq(left - 1)
        m.d.sync += outstanding.eq(outstanding + taken - axi.bvalid)
        with m.If(axi.bvalid & (axi.bresp != OKAY)):
            m.d.sync += self.response.eq(axi.bresp)
        return m
