"""A position lane against exact integers: every bit of the position, also beyond both ends of the range."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.helpers.simulation import BlockSimulator

from bitlane.contract.encoding import FLOAT_BIAS, ValueType, left_shift
from bitlane_hw.encoder.positions import PositionLane, offset_delay, position_latency

TYPES = {ValueType.UINT8: np.uint8, ValueType.INT16: np.int16, ValueType.FLOAT32: np.float32}
VALUES = 150


def random_value(rng: Random, kind: ValueType) -> Any:
    """Return a value of a type: any bits, or one of its limits."""
    if kind != ValueType.FLOAT32:
        info = np.iinfo(TYPES[kind])
        return TYPES[kind](rng.choice((info.min, info.max, 0, 1, rng.randint(info.min, info.max))))
    tiny = rng.choice((0.0, -0.0, 2.0**-149, -(2.0**-149), 1e-42))
    return np.float32(tiny if rng.random() < 0.1 else rng.uniform(-2, 2) * 10.0 ** rng.randint(-30, 30))


@pytest.mark.parametrize("base_bits", [14, 32])
@pytest.mark.parametrize("kind", list(ValueType))
def test_bits(base_bits: int, kind: ValueType, seed: int) -> None:
    rng, dut = Random(seed), PositionLane(base_bits)
    bits = 2 * rng.randint(0, base_bits // 2)  # of the run
    top = 1 << bits + 20
    cases = []
    for _ in range(VALUES):
        x, multiplier = random_value(rng, kind), rng.randint(1 << 23, (1 << 24) - 1)
        # a scale with which x lies in (-4, 4) times the range, and the multiplier stays exact
        size = abs(float(x)) or 1.0
        exponent = bits + 20 - 24 - int(np.ceil(np.log2(size))) - rng.randint(0, 12)
        exponent = min(exponent, base_bits - 3)
        product = floor(Fraction(float(x)) * multiplier * Fraction(2) ** exponent)
        target = rng.choice(
            (-1, 0, 1, top - 1, top, top + 1, rng.randrange(top), -rng.randrange(top), top + rng.randrange(top))
        )
        shift = left_shift(base_bits) + FLOAT_BIAS - exponent
        if -512 <= shift < 512:
            cases.append((x, multiplier, shift, target - product, target))

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.value_type, kind)
        ctx.set(dut.above, ~0 << bits & (1 << len(dut.above)) - 1)
        for cycle in range(len(cases) + position_latency(base_bits)):
            if cycle < len(cases):
                x, multiplier, shift, _, _ = cases[cycle]
                ctx.set(dut.value, int.from_bytes(x.tobytes(), "little"))
                ctx.set(dut.factor, {"multiplier": multiplier, "shift": shift})
            if 0 <= (later := cycle - offset_delay(base_bits)) < len(cases):
                ctx.set(dut.offset, cases[later][3] & (1 << len(dut.offset)) - 1)
            await ctx.tick()
            if (done := cycle + 1 - position_latency(base_bits)) >= 0 and done < len(cases):
                position, target = dut.position, cases[done][4]
                code = ctx.get(position.code) & (1 << bits) - 1
                threshold = ctx.get(position.inside) + ctx.get(position.round_up)
                clipped = min(max(target, 0), top)
                expected = min(clipped >> 20, (1 << bits) - 1)
                assert (code, threshold) == (expected, clipped - (expected << 20) + 8 >> 4), cases[done]

    BlockSimulator(dut).run(testbench)
