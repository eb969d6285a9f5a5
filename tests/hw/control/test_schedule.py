"""Decay of the steps and the penalty step, and the phase that selects the batches that shrink, against integers."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.helpers.simulation import fields, run

from bitlane_hw.control.schedule import SCALES, StepSchedule

Scale = tuple[int, int]  # mantissa, exponent
DECAY_CYCLES = 4  # after `epoch_end`: the multiplier, and one cycle for each scale


def decayed(scale: Scale, decay: int) -> Scale:
    """Return a scale after one decay: `docs/design.md`, Decay."""
    mantissa, exponent = scale
    p = mantissa * decay
    if p >= 2**31:
        return p >> 16, exponent
    if exponent < 31:
        return p >> 15, exponent + 1
    return p >> 16, exponent


def penalty_step32(penalty_step: Scale) -> int:
    """Return the penalty step in 2**-32."""
    mantissa, exponent = penalty_step
    return (mantissa << 16) >> exponent


def random_scale(rng: Random) -> Scale:
    return rng.choice((0, 1, 1 << 15, (1 << 16) - 1, rng.randrange(1 << 16))), rng.choice((0, 31, rng.randrange(32)))


async def load(ctx: Any, dut: StepSchedule, scales: list[Scale], phase: int) -> None:
    ctx.set(dut.initial, [{"mantissa": mantissa, "exponent": exponent} for mantissa, exponent in scales])
    ctx.set(dut.phase_initial, phase)
    ctx.set(dut.load, 1)
    await ctx.tick()
    ctx.set(dut.load, 0)


def read(ctx: Any, dut: StepSchedule) -> list[Scale]:
    return [(scale["mantissa"], scale["exponent"]) for scale in fields(ctx.get(dut.scales))]


def test_decay(seed: int) -> None:
    """All scales after every epoch of runs that exhaust the exponents; one scale a cycle."""
    rng = Random(seed)
    dut = StepSchedule()
    assert SCALES == ("step", "step_negative", "penalty_step")

    async def testbench(ctx: Any) -> None:
        for decay in (1 << 15, 1 << 16, (1 << 16) - 1, *(rng.randrange(1 << 15, 1 << 16) for _ in range(6))):
            scales = [random_scale(rng) for _ in SCALES]
            ctx.set(dut.decay, decay)
            await load(ctx, dut, scales, 0)
            for _ in range(50):
                for _ in range(rng.randrange(3)):
                    assert read(ctx, dut) == scales
                    await ctx.tick()
                ctx.set(dut.epoch_end, 1)
                assert read(ctx, dut) == scales
                await ctx.tick()
                ctx.set(dut.epoch_end, 0)
                assert read(ctx, dut) == scales
                await ctx.tick()
                for turn in range(DECAY_CYCLES - 1):
                    assert read(ctx, dut) == scales
                    scales[turn] = decayed(scales[turn], decay)
                    await ctx.tick()

    run(dut, testbench)


def test_phase(seed: int) -> None:
    """`shrink` is high exactly for the batch ends at which the phase wraps; the penalty step is its increment."""
    rng = Random(seed)
    dut = StepSchedule()
    shrinks = 0

    async def testbench(ctx: Any) -> None:
        nonlocal shrinks
        for exponent in (0, 1, 2, 3, 8, 31):
            penalty_step = rng.choice((1 << 15, (1 << 16) - 1, rng.randrange(1 << 16))), exponent
            phase = rng.choice((0, (1 << 32) - 1, rng.getrandbits(32)))
            ctx.set(dut.decay, 1 << 16)
            await load(ctx, dut, [(0, 0), (0, 0), penalty_step], phase)
            assert ctx.get(dut.phase) == phase
            await ctx.tick()
            for _ in range(100):
                assert ctx.get(dut.penalty_step32) == penalty_step32(penalty_step)
                end = rng.random() < 0.5
                ctx.set(dut.batch_end, end)
                carry = end and phase + penalty_step32(penalty_step) >= 1 << 32
                assert ctx.get(dut.shrink) == carry
                shrinks += carry
                if end:
                    phase = (phase + penalty_step32(penalty_step)) % (1 << 32)
                await ctx.tick()
                assert ctx.get(dut.phase) == phase
            ctx.set(dut.batch_end, 0)

    run(dut, testbench)
    assert shrinks


def test_a_decayed_penalty_step_applies_from_the_next_epoch(seed: int) -> None:
    rng = Random(seed)
    dut = StepSchedule()
    decay = rng.randrange(1 << 15, 1 << 16)

    async def testbench(ctx: Any) -> None:
        penalty_step, phase = (rng.randrange(1 << 15, 1 << 16), rng.randrange(4)), rng.getrandbits(32)
        ctx.set(dut.decay, decay)
        await load(ctx, dut, [(0, 0), (0, 0), penalty_step], phase)
        await ctx.tick()
        for _ in range(30):
            ctx.set(dut.batch_end, 1)
            phase += penalty_step32(penalty_step)
            assert ctx.get(dut.shrink) == phase >> 32
            phase %= 1 << 32
            await ctx.tick()
            ctx.set(dut.batch_end, 0)
            ctx.set(dut.epoch_end, 1)
            penalty_step = decayed(penalty_step, decay)
            await ctx.tick()
            ctx.set(dut.epoch_end, 0)
            for _ in range(DECAY_CYCLES + 1):
                await ctx.tick()
            assert ctx.get(dut.penalty_step32) == penalty_step32(penalty_step)
            assert ctx.get(dut.phase) == phase

    run(dut, testbench)
