"""Sizes of the regions, and how many cycles they take."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from bitlane_hw.regions import RegionSizes

from .support import CONFIG, Run, run, settings


def test_sizes(seed: int) -> None:
    rng = Random(seed)
    dut = RegionSizes(CONFIG)
    cases = [
        Run(chunks, base_digits, 1, rows, 1, 1)
        for chunks in (1, 3, 4)
        for base_digits in (0, 1, 16)
        for rows in (1, 4, 5, (1 << 24) - 1, rng.randrange(1, 1 << 24))
    ]
    cases += [
        Run(rng.randint(1, 4), rng.randint(0, 16), 1, rng.randrange(1, 1 << rng.randint(1, 24)), 1, 1)
        for _ in range(60)
    ]

    async def testbench(ctx: Any) -> None:
        for case in cases:
            ctx.set(dut.settings, settings(case))
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            cycles = 1
            while not ctx.get(dut.done):
                cycles += 1
                assert cycles < 40
                await ctx.tick()
            assert cycles == max(case.chunks * case.base_digits, case.chunks).bit_length() + 1
            base_words = case.rows * case.chunks * case.base_digits + math.ceil(case.rows / 4)
            for _ in range(rng.randrange(3)):
                assert ctx.get(dut.done)
                assert ctx.get(dut.base_words) == base_words
                assert ctx.get(dut.draw_words) == case.rows * case.chunks
                await ctx.tick()

    run(dut, testbench)
