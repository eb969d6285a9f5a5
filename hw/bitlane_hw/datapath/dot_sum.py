"""The sum of the dot products of the shards of a row."""

from __future__ import annotations

from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import SHARD_CROSSING, dot_sum_latency
from bitlane_hw.common.payloads import dots_layout
from bitlane_hw.common.staged import Staged, follow, together


def _exact_sum(a: Value, b: Value, bits: int) -> Value:
    """Return the sum of both values, which fits in `bits` bits."""
    return (a + b)[:bits].as_signed()


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
        dots = self.dots.payload
        bits = len(dots.dot1)
        for name in ("dot1", "dot2"):
            parts = [Staged(part.payload[name], 0) for part in self.parts]
            sums = [part.until(m, SHARD_CROSSING, f"{name}_of_{i}") for i, part in enumerate(parts)]
            while len(sums) > 1:
                pairs = zip(sums[::2], sums[1::2], strict=True)
                added = [together(_exact_sum, a, b, bits) for a, b in pairs]
                sums = [total.registered(m, f"{name}_{len(sums) // 2}_{i}") for i, total in enumerate(added)]
            m.d.comb += dots[name].eq(sums[0].at(self.latency))
        m.d.comb += follow(m, self.parts[0], self.dots, self.latency)
        return m
