"""Decay of step and rate, and the phase that decides which batches shrink, against integers."""

from __future__ import annotations

from random import Random
from typing import Any

from bitlane_hw.schedule import Schedule

from .support import run


def decayed(mantissa: int, exponent: int, decay: int) -> tuple[int, int]:
    """`docs/design.md`, Decay."""
    p = mantissa * decay
    if p >= 2**31:
        return p >> 16, exponent
    if exponent < 31:
        return p >> 15, exponent + 1
    return p >> 16, exponent


def some_scale(rng: Random) -> tuple[int, int]:
    return rng.choice((0, 1, 1 << 15, (1 << 16) - 1, rng.randrange(1 << 16))), rng.choice((0, 31, rng.randrange(32)))


async def load(ctx: Any, dut: Schedule, step: tuple[int, int], rate: tuple[int, int], phase: int) -> None:
    ctx.set(dut.step_initial, {"mantissa": step[0], "exponent": step[1]})
    ctx.set(dut.rate_initial, {"mantissa": rate[0], "exponent": rate[1]})
    ctx.set(dut.phase_initial, phase)
    ctx.set(dut.load, 1)
    await ctx.tick()
    ctx.set(dut.load, 0)


def read(ctx: Any, scale: Any) -> tuple[int, int]:
    value = ctx.get(scale)
    return value.mantissa, value.exponent


def test_decay(seed: int) -> None:
    """Step and rate after every epoch of some runs, long enough for exponents to run out."""
    rng = Random(seed)
    dut = Schedule()

    async def testbench(ctx: Any) -> None:
        for decay in (1 << 15, 1 << 16, (1 << 16) - 1, *(rng.randrange(1 << 15, 1 << 16) for _ in range(8))):
            step, rate = some_scale(rng), some_scale(rng)
            ctx.set(dut.decay, decay)
            await load(ctx, dut, step, rate, 0)
            for _ in range(80):
                assert read(ctx, dut.step) == step
                assert read(ctx, dut.rate) == rate
                end = rng.random() < 0.7
                ctx.set(dut.epoch_end, end)
                if end:
                    step, rate = decayed(*step, decay), decayed(*rate, decay)
                await ctx.tick()
            ctx.set(dut.epoch_end, 0)

    run(dut, testbench)


def test_phase(seed: int) -> None:
    """`shrink` with each batch end that makes the phase wrap, and with no other cycle."""
    rng = Random(seed)
    dut = Schedule()
    shrinks = 0

    async def testbench(ctx: Any) -> None:
        nonlocal shrinks
        for exponent in (0, 1, 2, 3, 8, 31):
            mantissa = rng.choice((1 << 15, (1 << 16) - 1, rng.randrange(1 << 16)))
            phase = rng.choice((0, (1 << 32) - 1, rng.getrandbits(32)))
            ctx.set(dut.decay, 1 << 16)
            await load(ctx, dut, (0, 0), (mantissa, exponent), phase)
            assert ctx.get(dut.phase) == phase
            await ctx.tick()
            rate32 = (mantissa << 16) >> exponent
            for _ in range(100):
                end = rng.random() < 0.5
                ctx.set(dut.batch_end, end)
                carry = end and phase + rate32 >= 1 << 32
                assert ctx.get(dut.shrink) == carry
                shrinks += carry
                if end:
                    phase = (phase + rate32) % (1 << 32)
                await ctx.tick()
                assert ctx.get(dut.phase) == phase
            ctx.set(dut.batch_end, 0)

    run(dut, testbench)
    assert shrinks


def test_a_decayed_rate_counts_from_the_next_epoch(seed: int) -> None:
    rng = Random(seed)
    dut = Schedule()
    decay = rng.randrange(1 << 15, 1 << 16)

    async def testbench(ctx: Any) -> None:
        rate, phase = (rng.randrange(1 << 15, 1 << 16), rng.randrange(4)), rng.getrandbits(32)
        ctx.set(dut.decay, decay)
        await load(ctx, dut, (0, 0), rate, phase)
        await ctx.tick()
        for _ in range(30):
            ctx.set(dut.batch_end, 1)
            phase += (rate[0] << 16) >> rate[1]
            assert ctx.get(dut.shrink) == phase >> 32
            phase %= 1 << 32
            await ctx.tick()
            ctx.set(dut.batch_end, 0)
            ctx.set(dut.epoch_end, 1)
            rate = decayed(*rate, decay)
            await ctx.tick()
            ctx.set(dut.epoch_end, 0)
            await ctx.tick()
            assert ctx.get(dut.phase) == phase

    run(dut, testbench)
