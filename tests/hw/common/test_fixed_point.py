"""Rounding, saturation, adders, counting and delays, exhaustively for small widths."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from amaranth.hdl import Module, Signal, signed
from tests.helpers.integer_model import clip, rounded
from tests.helpers.simulation import run

from bitlane.contract.formats import Fixed
from bitlane_hw.common.fixed_point import (
    add_or_subtract,
    add_three,
    add_with_carry,
    delay,
    delay_valid,
    fits,
    inverted_if,
    popcount,
    register,
    round_half_up,
    saturate,
)

BITS = 10
ALL = range(-(1 << BITS - 1), 1 << BITS - 1)
CUTS = range(BITS + 3)


def test_round_half_up_by_constants() -> None:
    m = Module()
    value = Signal(signed(BITS))
    results = [Signal(signed(BITS + 2), name=f"by_{n}") for n in CUTS]
    m.d.comb += [result.eq(round_half_up(value, n)) for n, result in zip(CUTS, results, strict=True)]

    async def testbench(ctx: Any) -> None:
        for x in ALL:
            ctx.set(value, x)
            for n, result in zip(CUTS, results, strict=True):
                assert ctx.get(result) == rounded(x, n), (x, n)

    run(m, testbench, clocked=False)


def test_round_half_up_by_a_signal() -> None:
    m = Module()
    value, n, result = Signal(signed(8)), Signal(4), Signal(signed(10))
    m.d.comb += result.eq(round_half_up(value, n))

    async def testbench(ctx: Any) -> None:
        for shift in range(16):
            ctx.set(n, shift)
            for x in range(-128, 128):
                ctx.set(value, x)
                assert ctx.get(result) == rounded(x, shift), (x, shift)

    run(m, testbench, clocked=False)


@pytest.mark.parametrize("bits", [1, 2, 5, BITS - 1, BITS, BITS + 1])
def test_saturate_and_fits(bits: int) -> None:
    m = Module()
    value, result, clipped, fit = Signal(signed(BITS)), Signal(signed(BITS + 2)), Signal(), Signal()
    narrowed, was_clipped = saturate(value, Fixed(bits, 0))
    m.d.comb += [result.eq(narrowed), clipped.eq(was_clipped)]
    if bits <= BITS:
        m.d.comb += fit.eq(fits(value, bits))

    async def testbench(ctx: Any) -> None:
        for x in ALL:
            ctx.set(value, x)
            expected = clip(x, bits)
            assert ctx.get(result) == expected, x
            assert ctx.get(clipped) == (x != expected), x
            if bits <= BITS:
                assert ctx.get(fit) == (x == expected), x

    run(m, testbench, clocked=False)


@pytest.mark.parametrize("bits", [(1, 1), (1, 4), (3, 5), (5, 3), (5, 5)], ids=str)
def test_add_with_carry_and_add_or_subtract(bits: tuple[int, int]) -> None:
    """The result has room for every pair of numbers, with a carry and with a sign."""
    m = Module()
    a, b, bit = Signal(signed(bits[0])), Signal(signed(bits[1])), Signal()
    values = add_with_carry(a, b, bit), add_or_subtract(a, b, bit)
    assert [value.shape() for value in values] == [signed(max(bits) + 1)] * 2
    results = [Signal.like(value, name=f"result_{i}") for i, value in enumerate(values)]
    m.d.comb += [result.eq(value) for result, value in zip(results, values, strict=True)]

    async def testbench(ctx: Any) -> None:
        for x in range(-(1 << bits[0] - 1), 1 << bits[0] - 1):
            for y in range(-(1 << bits[1] - 1), 1 << bits[1] - 1):
                for c in (0, 1):
                    ctx.set(a, x)
                    ctx.set(b, y)
                    ctx.set(bit, c)
                    assert ctx.get(results[0]) == x + y + c, (x, y, c)
                    assert ctx.get(results[1]) == (x - y if c else x + y), (x, y, c)

    run(m, testbench, clocked=False)


def test_add_three() -> None:
    """All numbers of 3, 2 and 2 bits with all signs, in the full width and cut."""
    m = Module()
    a, b, c, minus = Signal(signed(3)), Signal(signed(2)), Signal(signed(2)), Signal(2)
    results = {bits: Signal(signed(bits), name=f"sum_{bits}") for bits in (5, 3, 2)}
    m.d.comb += [result.eq(add_three(a, (b, c), (minus[0], minus[1]), bits)) for bits, result in results.items()]

    async def testbench(ctx: Any) -> None:
        for x, y, z, signs in product(range(-4, 4), range(-2, 2), range(-2, 2), range(4)):
            for port, value in ((a, x), (b, y), (c, z), (minus, signs)):
                ctx.set(port, value)
            exact = x + (-y if signs & 1 else y) + (-z if signs & 2 else z)
            for bits, result in results.items():
                assert (ctx.get(result) - exact) % (1 << bits) == 0, (x, y, z, signs, bits)
            assert ctx.get(results[5]) == exact

    run(m, testbench, clocked=False)


def test_inverted_if() -> None:
    m = Module()
    value, condition, result = Signal(signed(BITS)), Signal(), Signal(signed(BITS + 2))
    m.d.comb += result.eq(inverted_if(condition, value))

    async def testbench(ctx: Any) -> None:
        for x in ALL:
            ctx.set(value, x)
            for c in (0, 1):
                ctx.set(condition, c)
                assert ctx.get(result) == (-x - 1 if c else x), (x, c)

    run(m, testbench, clocked=False)


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 12])
def test_popcount(bits: int) -> None:
    m = Module()
    value, result = Signal(bits), Signal(bits.bit_length())
    m.d.comb += result.eq(popcount(value))
    assert len(popcount(value)) >= bits.bit_length()

    async def testbench(ctx: Any) -> None:
        for x in range(1 << bits):
            ctx.set(value, x)
            assert ctx.get(result) == x.bit_count()

    run(m, testbench, clocked=False)


def test_delays(seed: int) -> None:
    rng = Random(seed)
    m = Module()
    value, valid = Signal(signed(6)), Signal()
    late = [delay(m, value, n, f"by_{n}") for n in range(5)]
    stages = delay_valid(m, valid, 4, "valid")
    once = register(m, value, "once")
    assert late[0] is value
    assert all(signal.shape() == signed(6) for signal in (*late, once))

    async def testbench(ctx: Any) -> None:
        for stage in stages:
            assert ctx.get(stage) == 0  # valid bits have a reset
        history = [(0, 0)] * 4
        for _ in range(200):
            history.append((rng.randrange(-32, 32), rng.randrange(2)))
            ctx.set(value, history[-1][0])
            ctx.set(valid, history[-1][1])
            for n, signal in enumerate(late):
                assert ctx.get(signal) == history[-1 - n][0]
            assert ctx.get(once) == history[-2][0]
            for i, stage in enumerate(stages):
                assert ctx.get(stage) == history[-2 - i][1]
            await ctx.tick()

    run(m, testbench)
