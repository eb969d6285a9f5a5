"""The AXI4 write master: models and trace records to memory."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import request_layout

from .axi import INCR, OKAY, AXI4Write, full_size


class Writer(wiring.Component):
    """Write bursts of 1 to 16 beats, one after the other, without waiting for their responses.

    A request is taken when the address and all beats of the previous burst have left. In the next cycle its address and
    its first beat are offered together. Neither waits for the other, because a memory may take them in any order.
    Throughput: one beat a cycle, plus one cycle a burst. Backpressure: the memory may refuse an address or a beat at
    any time. A response that arrives while no burst is open is dropped: it answers a burst from before a reset. The
    requester must align its requests to their size, so that no burst crosses a 4 KiB boundary.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    requests : stream of request_layout, in
        Address and length of a burst.
    beats : stream of beats, in, always valid
        As many as requested.
    response : 2 bits, out
        The last response that was not OKAY; OKAY if there was none.
    idle : 1 bit, out
        All bursts are written and answered.
    axi : AXI4Write, out
        The memory port.
    """

    def __init__(self, config: AcceleratorConfig):
        self._width = config.port_width
        super().__init__(
            {
                "requests": In(stream.Signature(request_layout(config))),
                "beats": In(stream.Signature(config.port_width, always_valid=True)),
                "response": Out(2),
                "idle": Out(1),
                "axi": Out(AXI4Write(config.address_bits, config.port_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi, request = self.axi, self.requests.payload
        sending = Signal()
        left = Signal(range(BURST_BEATS + 1))
        outstanding = Signal(16)
        m.d.comb += [
            self.requests.ready.eq(~axi.awvalid & ~sending),
            self.idle.eq(self.requests.ready & (outstanding == 0)),
            axi.awsize.eq(full_size(self._width)),
            axi.awburst.eq(INCR),
            axi.wdata.eq(self.beats.payload),
            axi.wstrb.eq((1 << self._width // 8) - 1),
            axi.wvalid.eq(sending),
            self.beats.ready.eq(axi.wvalid & axi.wready),
            axi.bready.eq(1),
        ]
        taken = self.requests.valid & self.requests.ready
        with m.If(taken):
            m.d.sync += [
                axi.awvalid.eq(1),
                axi.awaddr.eq(request.address),
                axi.awlen.eq(request.beats - 1),
                axi.wlast.eq(request.beats == 1),
                left.eq(request.beats),
                sending.eq(1),
            ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(self.beats.ready):
            m.d.sync += [left.eq(left - 1), axi.wlast.eq(left == 2), sending.eq(~axi.wlast)]
        answered = Signal()
        m.d.comb += answered.eq(axi.bvalid & (outstanding != 0))
        m.d.sync += outstanding.eq(outstanding + Mux(taken == answered, 0, Mux(taken, 1, -1)))
        with m.If(answered & (axi.bresp != OKAY)):
            m.d.sync += self.response.eq(axi.bresp)
        return m
