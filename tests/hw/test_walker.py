"""The walker's tokens against nested loops."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bitlane_hw.walker import Walker

from .support import CONFIG, LABEL, MODEL, Run, run, settings, some_run, tokens

FLAGS = ("first", "last_base", "last", "row_last", "batch_last", "epoch_last")


def check(geometry: Run, rng: Random, eagerness: float) -> None:
    """Every token in its place, a token a cycle, held while it is not taken; nothing after the last."""
    dut = Walker(CONFIG)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, settings(geometry))
        for index, token in enumerate(tokens(geometry)):
            taken = False
            while not taken:
                taken = rng.random() < eagerness
                ctx.set(dut.tokens.ready, taken)
                assert ctx.get(dut.tokens.valid), index
                seen = ctx.get(dut.tokens.payload)
                assert seen.kind.value == token.kind, index
                if token.kind not in (MODEL, LABEL):
                    assert seen.chunk == token.chunk, index
                    assert seen.row_phase == token.row % 4, index
                    for flag in FLAGS:
                        assert seen[flag] == getattr(token, flag), (index, flag)
                await ctx.tick()
        ctx.set(dut.tokens.ready, 1)
        for _ in range(20):
            assert not ctx.get(dut.tokens.valid)
            await ctx.tick()

    run(dut, testbench)


@pytest.mark.parametrize("eagerness", [1, 0.5])
def test_order(seed: int, eagerness: float) -> None:
    rng = Random(seed)
    for _ in range(8):
        check(some_run(rng), rng, eagerness)


@pytest.mark.parametrize(
    "geometry",
    [
        Run(chunks=1, base_digits=1, draws=0, rows=1, batch=1, epochs=1),
        Run(chunks=1, base_digits=0, draws=1, rows=9, batch=4, epochs=3),
        Run(chunks=4, base_digits=16, draws=0, rows=2, batch=5, epochs=2),
        Run(chunks=4, base_digits=15, draws=1, rows=4, batch=4, epochs=1),
    ],
    ids=str,
)
def test_corners(seed: int, geometry: Run) -> None:
    check(geometry, Random(seed), 0.8)
