"""A stream cut by registers."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class RegisterSlice(wiring.Component):
    """No path leads through it: `valid` and payload, and also `ready`, come out of flip-flops.

    Latency: 1 cycle. Throughput: a payload a cycle. A payload that arrives as the output is first refused waits in a
    spare register, for which `put.ready` was promised; where `got.ready` is always 1, the spare is optimised away.

    Parameters
    ----------
    shape: of the payload.

    Members
    -------
    put: In, stream. got: Out, the same stream, a cycle later at least.
    """

    def __init__(self, shape):
        super().__init__({"put": In(stream.Signature(shape)), "got": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        put, got = self.put, self.got
        spare = Signal.like(put.payload)
        is_spare = Signal()
        m.d.comb += put.ready.eq(~is_spare)
        with m.If(got.ready | ~got.valid):
            m.d.sync += [got.valid.eq(put.valid | is_spare), got.payload.eq(put.payload), is_spare.eq(0)]
            with m.If(is_spare):
                m.d.sync += got.payload.eq(spare)
        with m.Elif(put.valid & ~is_spare):
            m.d.sync += [spare.eq(put.payload), is_spare.eq(1)]
        return m
