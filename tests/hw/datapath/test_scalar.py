"""Predictions, slopes, loss and step against exact integers, cycle by cycle; the sigmoid table against floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.helpers.integer_model import (
    HINGE,
    LOGISTIC,
    ONE,
    SQUARES,
    loss_of,
    predicted,
    random_int,
    rounded,
    scaled_gradient,
    slope,
)
from tests.helpers.run_shapes import CONFIG
from tests.helpers.simulation import BlockSimulator, fields, run

from bitlane.contract.sigmoid_lut import sigmoid_lut
from bitlane_hw.common.payloads import dot_bits
from bitlane_hw.datapath.scalar import LossSum, Predict, Slope, StepProduct

BITS = 24  # width of a prediction and of a slope
LOWEST, HIGHEST = -(1 << BITS - 1), (1 << BITS - 1) - 1
Case = tuple[dict[str, Any], dict[str, Any], int]  # a row; the result; flags of clipped values


async def check_stream(
    ctx: Any, source: Any, sink: Any, clipped: Any, latency: int, cases: Iterable[Case], rng: Random, rate: float = 0.7
) -> None:
    """Send rows with gaps; check that each result is valid in exactly its cycle."""
    due: dict[int, Case] = {}
    waiting = list(reversed(list(cases)))
    cycle = 0
    while waiting or due:
        valid = bool(waiting) and rng.random() < rate
        ctx.set(source.valid, valid)
        if valid:
            due[cycle + latency] = waiting.pop()
            ctx.set(source.payload, due[cycle + latency][0])
        else:
            ctx.set(source.payload.as_value(), rng.getrandbits(len(source.payload.as_value())))
        case = due.pop(cycle, None)
        assert ctx.get(sink.valid) == (case is not None), cycle
        if case is not None:
            row, expected, clips = case
            seen = fields(ctx.get(sink.payload))
            assert {name: seen[name] for name in expected} == expected, row
            assert ctx.get(clipped) == clips, row
        await ctx.tick()
        cycle += 1


def random_end(rng: Random) -> dict[str, int]:
    return {"label": random_int(rng, 16), "present": rng.randrange(2)}


# --- Predict -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def predict() -> BlockSimulator:
    return BlockSimulator(Predict(CONFIG))


@pytest.mark.parametrize("base_digits", [0, 1, 2, 3, 4, 7, 11, 15, 16])
@pytest.mark.parametrize("weight_exponent", [-8, -3, 0, 1, 7])
def test_predict(seed: int, predict: BlockSimulator, base_digits: int, weight_exponent: int) -> None:
    rng = Random(seed)
    dut = predict.dut
    assert Predict.latency == 2
    # Random sizes, often the largest one, or on both sides of a rounding or saturation boundary.
    sample = 4**base_digits - (base_digits == 16)  # the largest one; with 16 base digits there is no draw to add 1
    largest = CONFIG.max_features * sample << 23
    right = max(0, 2 * base_digits - weight_exponent)
    half = (1 << right) // 2
    corners = [(end << right) - half + near for end in (LOWEST, 0, HIGHEST + 1) for near in (-1, 0)]
    corners = [dot for dot in corners if abs(dot) <= largest]
    cases: list[Case] = []
    clips: Counter[bool] = Counter()
    for _ in range(400):
        dots = [
            max(-largest, min(largest, random_int(rng, rng.randint(BITS, dot_bits(CONFIG.max_features)))))
            for _ in range(2)
        ]
        dots[rng.randrange(2)] = rng.choice((dots[0], -largest, largest, *corners))
        (z1, clipped1), (z2, clipped2) = (predicted(dot, base_digits, weight_exponent) for dot in dots)
        end = random_end(rng)
        row = {"dot1": dots[0], "dot2": dots[1], "end": end}
        cases.append((row, {"z1": z1, "z2": z2, "end": end}, clipped1 | clipped2 << 1))
        clips.update(dot > 0 for dot, clipped in zip(dots, (clipped1, clipped2), strict=True) if clipped)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.base_digits, base_digits)
        ctx.set(dut.weight_exponent, weight_exponent)
        await ctx.tick()
        await check_stream(ctx, dut.dots, dut.predictions, dut.clipped, Predict.latency, cases, rng)

    predict.run(testbench)
    reachable = rounded(largest, 2 * base_digits + 8) << 8 + weight_exponent > HIGHEST << 1
    assert not reachable or (clips[True] and clips[False]), "the test must clip at both ends of the range"


# --- Slope ---------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def slopes() -> BlockSimulator:
    return BlockSimulator(Slope())


def sloped(loss: int, z: tuple[int, int], end: dict[str, int]) -> Case:
    (r1, costs1, clipped1), (r2, costs2, clipped2) = (slope(loss, x, end["label"]) for x in z)
    expected = {"r1": r1, "r2": r2, "end": end}
    if loss != SQUARES:
        expected["margin_cost"], expected["table_cost"] = map(sum, zip(costs1, costs2, strict=True))
    return {"z1": z[0], "z2": z[1], "end": end}, expected, clipped1 | clipped2 << 1


def check_slopes(slopes: BlockSimulator, loss: int, cases: list[Case], rng: Random, rate: float) -> None:
    dut = slopes.dut

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.loss, loss)
        await check_stream(ctx, dut.predictions, dut.slopes, dut.clipped, Slope.latency, cases, rng, rate)

    slopes.run(testbench)


@pytest.mark.parametrize("loss", [SQUARES, HINGE, LOGISTIC])
def test_slope(seed: int, slopes: BlockSimulator, loss: int) -> None:
    """Random rows and corner cases: saturated slopes, the bend of the hinge, label 0."""
    rng = Random(seed)
    assert Slope.latency == 3
    corners = [x for x in (0, ONE, -ONE, LOWEST + 1, HIGHEST - 1) for x in (x - 1, x, x + 1)]
    labels = (0, -1, 1, -(1 << 15), (1 << 15) - 1)
    cases = [sloped(loss, (z, -z - 1), {"label": label, "present": 1}) for z in corners for label in labels]
    cases += [sloped(loss, (random_int(rng, BITS), random_int(rng, BITS)), random_end(rng)) for _ in range(500)]
    if loss == SQUARES:
        for label in labels[3:]:  # on both sides of the saturation of z - y
            for end in (LOWEST, HIGHEST):
                z = [max(LOWEST, min(HIGHEST, end + (label << 5) + near)) for near in (-1, 0, 1)]
                cases += [sloped(loss, (z[0], x), {"label": label, "present": 1}) for x in z]
    assert len({clips for _, _, clips in cases}) == (4 if loss == SQUARES else 1)
    check_slopes(slopes, loss, cases, rng, 0.7)


def test_slope_of_every_lut_entry(seed: int, slopes: BlockSimulator) -> None:
    """All entries on both sides of 0 with both labels; at the ends of an entry, or inside it."""
    rng = Random(seed)
    cases = []
    for cell in range(1024):
        inside = [(cell << 13) + offset for offset in (0, (1 << 13) - 1, rng.randrange(1 << 13))]
        rng.shuffle(inside)
        for label in (-1, 0, 1):
            z = inside.pop()
            cases.append(sloped(LOGISTIC, rng.choice(((z, ~z), (~z, z))), {"label": label, "present": 1}))
    check_slopes(slopes, LOGISTIC, cases, rng, 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_sigmoid_lut_against_floats(sign: int) -> None:
    """All predictions: the error is at most that of `sigmoid_lut`, plus half a unit of the table for rounding."""
    tail, logarithm = np.array(sigmoid_lut()).T * 2.0**-18
    unit = 2.0**-19
    for start in range(0, HIGHEST + 1, 1 << 20):
        u = np.arange(start, start + (1 << 20))
        z = (u if sign > 0 else ~u) * 2.0**-20
        sigmoid = tail[u >> 13] if sign < 0 else 1 - tail[u >> 13]
        assert np.abs(sigmoid - 1 / (1 + np.exp(-z))).max() <= 2.0**-10 + unit
        # log(1 + exp(-y z)), for both signs of y z.
        for y in (1, -1):
            cost = np.maximum(-y * z, 0) + logarithm[u >> 13]
            assert np.abs(cost - np.logaddexp(0, -y * z)).max() <= 2.0**-9 + unit
    assert tail[-1] < 3.4e-4, "the error at the ends of the range of predictions"


# --- LossSum -------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows_per_beat", [1, 2, 8])
def test_loss(seed: int, rows_per_beat: int) -> None:
    rng = Random(seed)
    dut = LossSum(rows_per_beat)
    assert dut.latency == 5

    async def testbench(ctx: Any) -> None:
        for loss in (SQUARES, HINGE, LOGISTIC, SQUARES):
            ctx.set(dut.squares, loss == SQUARES)
            total = 0
            late = [0] * dut.latency  # contributions in the pipeline
            for cycle in range(60):
                valid = cycle < 50 and rng.random() < 0.7
                rows = [
                    {
                        "r1": random_int(rng, BITS),
                        "r2": random_int(rng, BITS),
                        "margin_cost": rng.getrandbits(BITS + 2),
                        "table_cost": rng.getrandbits(21),
                        "end": random_end(rng),
                    }
                    for _ in range(rows_per_beat)
                ]
                added = [
                    loss_of(loss, (row["r1"], row["r2"]), (row["margin_cost"], row["table_cost"]))
                    * row["end"]["present"]
                    for row in rows
                ]
                ctx.set(dut.slopes.valid, valid)
                ctx.set(dut.slopes.payload, rows)
                total += late.pop(0)
                late.append(sum(added) if valid else 0)
                seen = ctx.get(dut.loss)
                assert seen - (seen >> 63 << 64) == total, cycle
                await ctx.tick()
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            assert ctx.get(dut.loss) == 0

    run(dut, testbench)


def test_loss_of_the_longest_epoch_fits() -> None:
    """64 bits hold the sum of 2**24 rows with the largest residual or the largest cost."""
    assert max(rounded(1 << 46, 8), 2 * (ONE + (1 << 23)) << 11) * (1 << 24) < 1 << 63


# --- Step ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def step() -> BlockSimulator:
    return BlockSimulator(StepProduct())


@pytest.mark.parametrize("exponent", [0, 1, 4, 9, 20, 31])
def test_step(seed: int, step: BlockSimulator, exponent: int) -> None:
    rng = Random(seed)
    dut = step.dut
    clips: Counter[bool] = Counter()

    def stepped(scales: tuple[tuple[int, int], tuple[int, int]]) -> Case:
        end = random_end(rng)
        r1, r2 = random_int(rng, BITS), random_int(rng, BITS)
        values = [(0, 0)] * 2
        if end["present"]:
            operands = r1 + r2, r2 - r1
            values = [scaled_gradient(operand, scales[end["label"] < 0]) for operand in operands]
            clips.update(operand > 0 for operand, (_, clipped) in zip(operands, values, strict=True) if clipped)
        (total, clipped1), (difference, clipped2) = values
        row = {"r1": r1, "r2": r2, "margin_cost": rng.getrandbits(BITS + 2), "end": end}
        return row, {"total": total, "difference": difference}, clipped1 | clipped2 << 1

    async def testbench(ctx: Any) -> None:
        for mantissa in (rng.randrange(1 << 15, 1 << 16), (1 << 16) - 1, rng.randrange(1 << 16), 0):
            scales = [(mantissa, exponent), (rng.randrange(1 << 16), rng.choice((exponent, rng.randrange(32))))]
            rng.shuffle(scales)
            for port, scale in zip((dut.step, dut.step_negative), scales, strict=True):
                ctx.set(port, {"mantissa": scale[0], "exponent": scale[1]})
            cases = [stepped((scales[0], scales[1])) for _ in range(120)]
            await check_stream(ctx, dut.slopes, dut.scaled_gradients, dut.clipped, StepProduct.latency, cases, rng)

    assert StepProduct.latency == 5
    step.run(testbench)
    if exponent <= 1:
        assert clips[True] and clips[False], "the test must clip at both ends of the range"


def test_scaled_gradients_are_stable(seed: int, step: BlockSimulator) -> None:
    """The results are stable until those of the next row, and clipped values are flagged in one cycle only."""
    rng = Random(seed)
    dut = step.dut
    scale = ((1 << 16) - 1, 0)

    async def testbench(ctx: Any) -> None:
        for port in (dut.step, dut.step_negative):
            ctx.set(port, {"mantissa": scale[0], "exponent": scale[1]})
        now, clips = {"total": 0, "difference": 0}, 0
        for _ in range(30):
            r1, r2 = (random_int(rng, BITS) for _ in range(2))
            (total, clipped1), (difference, clipped2) = (scaled_gradient(x, scale) for x in (r1 + r2, r2 - r1))
            ctx.set(dut.slopes.valid, 1)
            ctx.set(dut.slopes.payload, {"r1": r1, "r2": r2, "end": {"label": random_int(rng, 16), "present": 1}})
            for cycle in range(StepProduct.latency + rng.randint(1, 6)):
                if cycle == StepProduct.latency:
                    now, clips = {"total": total, "difference": difference}, clipped1 | clipped2 << 1
                assert fields(ctx.get(dut.scaled_gradients.payload)) == now
                assert ctx.get(dut.clipped) == (clips if cycle == StepProduct.latency else 0)
                await ctx.tick()
                ctx.set(dut.slopes.valid, 0)
                ctx.set(dut.slopes.payload.as_value(), rng.getrandbits(len(dut.slopes.payload.as_value())))

    step.run(testbench)
