"""A register slice for a stream."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class RegisterSlice(wiring.Component):
    """Cut all combinational paths of a stream: `valid`, the payload and `ready` come out of flip-flops.

    A payload that arrives in the cycle in which the output is first refused goes into a spare register. If
    `output.ready` is always 1, synthesis removes the spare register.

    Latency: 1 cycle. Throughput: one payload a cycle. Backpressure: `input.ready` is low while the spare register is in
    use.

    Parameters
    ----------
    shape : ShapeLike
        Shape of the payload.

    Members
    -------
    input : stream of shape, in
        Payloads.
    output : stream of shape, out
        The same payloads, in order.
    """

    def __init__(self, shape):
        super().__init__({"input": In(stream.Signature(shape)), "output": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        i, o = self.input, self.output
        spare = Signal.like(i.payload)
        is_spare = Signal()
        m.d.comb += i.ready.eq(~is_spare)
        with m.If(o.ready | ~o.valid):
            m.d.sync += [o.valid.eq(i.valid | is_spare), o.payload.eq(i.payload), is_spare.eq(0)]
            with m.If(is_spare):
                m.d.sync += o.payload.eq(spare)
        with m.Elif(i.valid & ~is_spare):
            m.d.sync += [spare.eq(i.payload), is_spare.eq(1)]
        return m
