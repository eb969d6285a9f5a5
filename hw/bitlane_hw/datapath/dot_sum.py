"""The sum of the dot products of the shards of a row."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import SHARD_CROSSING, dot_sum_latency
from bitlane_hw.common.fixed_point import delay, delay_valid, register
from bitlane_hw.common.payloads import dots_layout


class DotSum(wiring.Component):
    """Sum both dot products of a row over the shards. The sums are exact.

    `SHARD_CROSSING` registers lead from each shard to a tree of adders with a register after each level.

    Latency: `dot_sum_latency` cycles. Throughput: one row a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with shards.

    Members
    -------
    parts : array of shards streams of dots_layout, in, always ready
        Dot products of each shard, all in the same cycle. The end of the row is that of shard 0.
    dots : stream of dots_layout, out, always ready
        Dot products.
    """

    def __init__(self, config: AcceleratorConfig):
        self.latency = dot_sum_latency(config.shards)
        dots = stream.Signature(dots_layout(config), always_ready=True)
        super().__init__({"parts": In(dots).array(config.shards), "dots": Out(dots)})

    def elaborate(self, platform):
        m = Module()
        first, dots = self.parts[0], self.dots.payload
        for name in ("dot1", "dot2"):
            bits = len(dots[name])
            sums = [delay(m, part.payload[name], SHARD_CROSSING, f"{name}_of_{i}") for i, part in enumerate(self.parts)]
            while len(sums) > 1:
                pairs = zip(sums[::2], sums[1::2], strict=True)
                level = f"{name}_{len(sums) // 2}"
                sums = [register(m, (a + b)[:bits].as_signed(), f"{level}_{i}") for i, (a, b) in enumerate(pairs)]
            m.d.comb += dots[name].eq(sums[0])
        m.d.comb += [
            self.dots.valid.eq(delay_valid(m, first.valid, self.latency, "valid")[-1]),
            dots.end.as_value().eq(delay(m, first.payload.end.as_value(), self.latency, "end")),
        ]
        return m
