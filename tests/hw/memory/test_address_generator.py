"""The tokens of the address generator against nested loops."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from tests.helpers.run_shapes import LABEL, MODEL, RunShape, Token, random_shape, settings, tokens
from tests.helpers.simulation import run

from bitlane.contract.layout import MAX_ROWS
from bitlane_hw.memory.address_generator import AddressGenerator

FLAGS = ("first", "last_base", "last", "row_last", "batch_last", "epoch_last")
BUILDS = [(1, 1), (2, 3), (8, 3), (8, 15)]  # rows_per_beat, outputs


def check_token(seen: Any, token: Token) -> None:
    assert seen.kind.value == token.kind
    if token.kind == MODEL:
        assert (seen.output, seen.chunk, seen.part) == (token.output, token.chunk, token.part)
    elif token.kind == LABEL:
        assert seen.output == token.output
    else:
        assert (seen.chunk, seen.phase) == (token.chunk, token.group % 4)
        assert token.half_digit == ("half_digit" in dict(seen.shape()) and seen.half_digit)
        for flag in FLAGS:
            if token.half_digit and flag in ("first", "last_base"):
                continue
            assert seen[flag] == getattr(token, flag), flag


def table(chunks: int, base_bits: int, **more: int) -> RunShape:
    return RunShape(chunks, base_bits // 2, 1, 5, 2, 2, half_digit=base_bits % 2, table_lanes=True, **more)


def check(geometry: RunShape, rng: Random, eagerness: float) -> None:
    """Check every token, one a cycle, stable until it is taken; no token follows the last one."""
    dut = AddressGenerator(geometry.config)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, settings(geometry))
        await ctx.tick()  # the settings are valid one cycle earlier
        for token in tokens(geometry):
            taken = False
            while not taken:
                taken = rng.random() < eagerness
                ctx.set(dut.tokens.ready, taken)
                assert ctx.get(dut.tokens.valid), token
                check_token(ctx.get(dut.tokens.payload), token)
                await ctx.tick()
        ctx.set(dut.tokens.ready, 1)
        for _ in range(20):
            assert not ctx.get(dut.tokens.valid)
            await ctx.tick()

    run(dut, testbench)


@pytest.mark.parametrize(("rows_per_beat", "outputs"), BUILDS)
@pytest.mark.parametrize("eagerness", [1, 0.5])
def test_order(seed: int, eagerness: float, rows_per_beat: int, outputs: int) -> None:
    rng = Random(seed)
    for _ in range(3):
        check(random_shape(rng, rows_per_beat, outputs), rng, eagerness)
        check(random_shape(rng, rows_per_beat, outputs, table_lanes=True), rng, eagerness)


@pytest.mark.parametrize(
    "geometry",
    [
        RunShape(chunks=1, base_digits=1, draws=0, groups=1, batch_groups=1, epochs=1),
        RunShape(chunks=1, base_digits=0, draws=1, groups=9, batch_groups=4, epochs=3, rows_per_beat=2, outputs=2),
        RunShape(chunks=4, base_digits=16, draws=0, groups=2, batch_groups=5, epochs=2, outputs=3),
        RunShape(chunks=4, base_digits=15, draws=1, groups=4, batch_groups=4, epochs=1, rows_per_beat=8),
        *(table(chunks, base_bits) for chunks in (1, 2, 3) for base_bits in (1, 2, 3)),
        table(1, 3, rows_per_beat=8, outputs=15),
    ],
    ids=str,
)
def test_corners(seed: int, geometry: RunShape) -> None:
    check(geometry, Random(seed), 0.8)


def test_the_largest_epoch_does_not_end_at_its_begin() -> None:
    """All bits of the counters of groups matter."""
    geometry = RunShape(1, 1, 1, groups=MAX_ROWS, batch_groups=MAX_ROWS, epochs=1)
    dut = AddressGenerator(geometry.config)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, settings(geometry))
        await ctx.tick()
        ctx.set(dut.tokens.ready, 1)
        for token in itertools.islice(tokens(geometry), 200):
            check_token(ctx.get(dut.tokens.payload), token)
            await ctx.tick()

    run(dut, testbench)
