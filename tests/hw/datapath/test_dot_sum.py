"""The sum of the dot products of all shards against Python integers, with gaps, at its stated latency."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.payloads import dot_bits
from bitlane_hw.datapath.dot_sum import DotSum


@pytest.mark.parametrize("shards", [2, 4, 8])
def test_sums_are_exact(seed: int, shards: int) -> None:
    rng = Random(seed)
    config = AcceleratorConfig(64 * shards, max_features=64 * shards, shards=shards)
    dut = DotSum(config)
    assert dut.latency == 2 + {2: 1, 4: 2, 8: 3}[shards]
    reach = 1 << dot_bits(config.max_features) - 1
    rows = [
        [[rng.randint(-reach // shards, (reach - 1) // shards) for _ in range(2)] for _ in range(shards)]
        for _ in range(60)
    ]

    async def testbench(ctx: Any) -> None:
        expected: list[tuple[bool, int, int, int]] = []
        for parts in rows:
            valid, label = rng.random() < 0.7, rng.randint(-(1 << 15), (1 << 15) - 1)
            for port, (dot1, dot2) in zip(dut.parts, parts, strict=True):
                ctx.set(port.valid, valid)
                ctx.set(port.payload.dot1, dot1)
                ctx.set(port.payload.dot2, dot2)
            ctx.set(dut.parts[0].payload.end.label, label)
            expected.append((valid, *map(sum, zip(*parts, strict=True)), label))
            if len(expected) > dut.latency:
                was_valid, *values = expected[-1 - dut.latency]
                assert ctx.get(dut.dots.valid) == was_valid
                found = ctx.get(dut.dots.payload)
                assert [found.dot1, found.dot2, found.end.label] == values
            await ctx.tick()

    run(dut, testbench)
