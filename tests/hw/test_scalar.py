"""Residuals, loss and step against exact integers, cycle for cycle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bitlane_hw.payloads import dot_bits
from bitlane_hw.scalar import Loss, Residual, Step

from .support import CONFIG, clip, rounded, run, some_int

RESIDUAL_BITS = 24
COEFFICIENT_BITS = 32


@pytest.mark.parametrize("base_digits", [0, 1, 2, 3, 4, 7, 11, 15, 16])
def test_residual(seed: int, base_digits: int) -> None:
    rng = Random(seed)
    dut = Residual(CONFIG)
    assert Residual.latency == 4
    # Of all sizes, and of the size at which a residual just saturates.
    edge = min(dot_bits(CONFIG), 2 * base_digits + RESIDUAL_BITS + 1)
    saturated = {"z above": 0, "z below": 0, "r above": 0, "r below": 0}

    def note(name: str, exact: int) -> int:
        value = clip(exact, RESIDUAL_BITS)
        saturated[f"{name} above"] += value < exact
        saturated[f"{name} below"] += value > exact
        return value

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.base_digits, base_digits)
        due: dict[int, dict[str, int]] = {}
        clips = [0] * 1000
        for cycle in range(600):
            valid = cycle < 590 and rng.random() < 0.7
            ctx.set(dut.dots.valid, valid)
            row = {f"dot{i}": some_int(rng, rng.choice((edge, edge, dot_bits(CONFIG)))) for i in (1, 2)}
            flags = {"batch_last": rng.randrange(2), "epoch_last": rng.randrange(2)}
            label = some_int(rng, 16)
            ctx.set(dut.dots.payload, {**row, "end": {"label": label, **flags}})
            if valid:
                due[cycle + 4] = flags
                for i in (1, 2):
                    exact = rounded(row[f"dot{i}"], 2 * base_digits)
                    z = note("z", exact)
                    r = note("r", z - (label << 5))
                    due[cycle + 4][f"r{i}"] = r
                    clips[cycle + 3] |= (z != exact) << (2 * i - 2)
                    clips[cycle + 4] |= (r != z - (label << 5)) << (2 * i - 1)
            expected = due.pop(cycle, None)
            assert ctx.get(dut.residuals.valid) == (expected is not None), cycle
            if expected is not None:
                seen = ctx.get(dut.residuals.payload)
                assert {name: seen[name] for name in expected} == expected
            assert ctx.get(dut.clipped) == clips[cycle], cycle
            await ctx.tick()

    run(dut, testbench)
    assert all(saturated.values()), saturated


def test_loss(seed: int) -> None:
    rng = Random(seed)
    dut = Loss()
    assert Loss.latency == 4

    async def testbench(ctx: Any) -> None:
        total = 0
        for _epoch in range(4):
            # The rows' products, and the loss that includes them four cycles on.
            late = [0] * 4
            for cycle in range(80):
                valid = cycle < 70 and rng.random() < 0.7
                r1, r2 = some_int(rng, RESIDUAL_BITS), some_int(rng, RESIDUAL_BITS)
                ctx.set(dut.residuals.valid, valid)
                ctx.set(dut.residuals.payload, {"r1": r1, "r2": r2})
                total += late.pop(0)
                late.append(rounded(r1 * r2, 8) if valid else 0)
                seen = ctx.get(dut.loss)
                assert seen - (seen >> 63 << 64) == total
                await ctx.tick()
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            assert ctx.get(dut.loss) == 0
            total = 0

    run(dut, testbench)


def test_loss_of_the_longest_epoch_fits() -> None:
    """Rows without end of the largest residual: no rounding is lost, the 64 bits hold 2**24 of them."""
    largest = rounded(1 << 46, 8)
    assert largest * (1 << 24) < 1 << 63


@pytest.mark.parametrize("exponent", [0, 1, 4, 9, 20, 31])
def test_step(seed: int, exponent: int) -> None:
    rng = Random(seed)
    dut = Step()
    assert Step.latency == 5
    saturated = [0, 0]

    async def testbench(ctx: Any) -> None:
        for mantissa in (rng.randrange(1 << 15, 1 << 16), (1 << 16) - 1, rng.randrange(1 << 16), 0):
            ctx.set(dut.step, {"mantissa": mantissa, "exponent": exponent})
            due: dict[int, dict[str, int]] = {}
            clips = [0] * 200
            for cycle in range(150):
                valid = cycle < 140 and rng.random() < 0.7
                row = {f"r{i}": some_int(rng, RESIDUAL_BITS) for i in (1, 2)}
                flags = {"batch_last": rng.randrange(2), "epoch_last": rng.randrange(2)}
                ctx.set(dut.residuals.valid, valid)
                ctx.set(dut.residuals.payload, {**row, **flags})
                if valid:
                    due[cycle + 5] = flags
                    operands = (row["r1"] + row["r2"], row["r2"] - row["r1"])
                    for i, (name, operand) in enumerate(zip(("total", "difference"), operands, strict=True)):
                        exact = rounded(operand * mantissa, exponent + 4)
                        value = due[cycle + 5][name] = clip(exact, COEFFICIENT_BITS)
                        clips[cycle + 5] |= (value != exact) << i
                        saturated[exact > 0] += value != exact
                expected = due.pop(cycle, None)
                assert ctx.get(dut.coefficients.valid) == (expected is not None), cycle
                if expected is not None:
                    seen = ctx.get(dut.coefficients.payload)
                    assert {name: seen[name] for name in expected} == expected
                assert ctx.get(dut.clipped) == clips[cycle], cycle
                await ctx.tick()

    run(dut, testbench)
    if exponent <= 1:
        assert all(saturated), "both ends of the range were to be met"
