"""Payloads leave in order, one cycle later, through registers on both sides."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import BlockSimulator

from bitlane_hw.zynq.register_slice import RegisterSlice


@pytest.mark.parametrize("rates", [(1, 1), (1, 0.5), (0.5, 1), (0.6, 0.6)])
def test_stream(seed: int, rates: tuple[float, float]) -> None:
    rng = Random(seed)
    dut = RegisterSlice(8)
    sent: list[int] = []
    got: list[int] = []
    levels = set()

    async def testbench(ctx: Any) -> None:
        offer = None
        held = None
        for _ in range(500):
            if offer is None and rng.random() < rates[0]:
                offer = rng.getrandbits(8)
            ready_before = ctx.get(dut.input.ready)
            ctx.set(dut.input.valid, offer is not None)
            ctx.set(dut.input.payload, offer or 0)
            out_before = ctx.get(dut.output.valid)
            takes = rng.random() < rates[1]
            ctx.set(dut.output.ready, takes)
            assert (ctx.get(dut.input.ready), ctx.get(dut.output.valid)) == (ready_before, out_before), (
                "a combinational path"
            )
            if held is not None:
                assert out_before and ctx.get(dut.output.payload) == held
            held = ctx.get(dut.output.payload) if out_before and not takes else None
            if out_before and takes:
                got.append(ctx.get(dut.output.payload))
            if offer is not None and ready_before:
                sent.append(offer)
                offer = None
            levels.add(len(sent) - len(got))
            await ctx.tick()

    BlockSimulator(dut).run(testbench)
    assert got == sent[: len(got)] and len(sent) - len(got) <= 2
    assert len(got) > 100
    if rates == (1, 1):
        assert (len(sent), len(got)) == (500, 499), "one payload a cycle, one cycle later"
    if rates == (1, 0.5):
        assert max(levels) == 2
