"""Random rounding of the published weights and of the scaled gradients, against random words and integers."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from tests.helpers.integer_model import pack, random_int, unpack
from tests.helpers.simulation import BlockSimulator

from bitlane.contract import prng as randomness
from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import PUBLISH_LATENCY, SCALED_GRADIENT_LATENCY
from bitlane.contract.prng import SEED_STEP
from bitlane_hw.datapath.rounding import ModelRounding, ScaledGradientRounding

LANES, CHUNKS = 32, 4
LEAST, MOST = -(1 << 31), (1 << 31) - 1


def config(rows_per_beat: int = 1) -> AcceleratorConfig:
    return AcceleratorConfig(
        64 * rows_per_beat, max_features=LANES * CHUNKS, row_buffer_beats=128, random_rounding=True
    )


def rounded(value: int, word: int, cut: int) -> int:
    """Return the rounded value without clipping."""
    return (value + word % (1 << cut)) >> cut << cut


async def begin(ctx: Any, dut: ModelRounding | ScaledGradientRounding, seed: int, cut: int) -> None:
    """Set the registers of a run."""
    ctx.set(dut.seed, seed)
    ctx.set(dut.cut, cut)
    ctx.set(dut.begin, 1)
    for _ in range(2):
        await ctx.tick()
    ctx.set(dut.begin, 0)


def beside_of(chunk: Any, events: Any) -> dict[str, Any]:
    """Return the signals beside the weights of a chunk."""
    return {
        "address": chunk.address,
        "bank": chunk.bank,
        "published": events.published,
        "epoch_done": events.epoch_done,
        "load_done": events.load_done,
    }


def test_published_weights(seed: int) -> None:
    """The initial model uses the words of the seed, each batch those of the next seed; with gaps, flags and banks."""
    dut = ModelRounding(config())
    simulator = BlockSimulator(dut)
    lanes = randomness.model_lanes()
    inputs = beside_of(dut.chunk, dut.events)
    flags = ("published", "epoch_done", "load_done")

    def once(rng: Random) -> None:
        start, cut, chunks = rng.getrandbits(32), rng.choice((0, 1, 8, 20, 27)), rng.randint(1, CHUNKS)

        async def testbench(ctx: Any) -> None:
            await begin(ctx, dut, start, cut)
            ctx.set(dut.seed, rng.getrandbits(32))  # not used after `begin`
            due: list[tuple[int, dict[str, int], list[int]]] = []
            cycle = 0

            async def tick() -> None:
                nonlocal cycle
                await ctx.tick()
                cycle += 1
                expected = due.pop(0) if due and due[0][0] == cycle else None
                assert ctx.get(dut.rounded.publish) == (expected is not None)
                found = {name: ctx.get(signal) for name, signal in beside_of(dut.rounded, dut.rounded_events).items()}
                if expected is None:
                    assert not any(found[name] for name in flags)
                else:
                    assert found == expected[1]
                    assert unpack(ctx.get(dut.rounded.masters), LANES, 32) == expected[2]

            for batch in range(4):
                words = randomness.random_words(start + batch * SEED_STEP & 0xFFFFFFFF, range(chunks), lanes)
                for chunk in range(chunks):
                    values = [
                        rng.choice((random_int(rng, 32), LEAST, MOST, MOST - rng.getrandbits(cut + 1)))
                        for _ in range(LANES)
                    ]
                    beside = {"address": chunk, "bank": rng.randrange(2), "published": 0, "epoch_done": 0}
                    beside |= {"load_done": int(batch == 0 and chunk == chunks - 1)}
                    if batch:
                        beside |= {"published": int(chunk == 0), "epoch_done": int(chunk == chunks - 1)}
                    for name, value in beside.items():
                        ctx.set(inputs[name], value)
                    ctx.set(dut.chunk.publish, 1)
                    ctx.set(dut.chunk.masters, pack(values, 32))
                    of_lanes = zip(values, words[chunk].tolist(), strict=True)
                    due.append((cycle + PUBLISH_LATENCY, beside, [min(rounded(*pair, cut), MOST) for pair in of_lanes]))
                    await tick()
                    ctx.set(dut.chunk.publish, 0)
                    for name in flags:
                        ctx.set(inputs[name], 0)
                    for _ in range(rng.choice((0, 0, 1, 5))):
                        await tick()
            for _ in range(PUBLISH_LATENCY):
                await tick()
            assert not due

        simulator.run(testbench)

    for i in range(8):
        once(Random(seed + i))


@pytest.mark.parametrize("rows_per_beat", [1, 4])
def test_scaled_gradients(seed: int, rows_per_beat: int) -> None:
    """Each group uses the words of its index, each batch its seed; clipped values are flagged."""
    dut = ScaledGradientRounding(config(rows_per_beat))
    simulator = BlockSimulator(dut)
    lanes = randomness.scaled_gradient_lanes(rows_per_beat)

    def once(rng: Random) -> None:
        start, cut = rng.getrandbits(32), rng.choice((0, 1, 12, 27))

        async def testbench(ctx: Any) -> None:
            await begin(ctx, dut, start, cut)
            for batch in range(4):
                now = start + batch * SEED_STEP & 0xFFFFFFFF
                groups = rng.randint(1, 5)
                for group in range(groups):
                    last = group == groups - 1
                    ctx.set(dut.due, 1)
                    ctx.set(dut.end, {"batch_last": last, "epoch_last": rng.randrange(2)})
                    await ctx.tick()
                    ctx.set(dut.due, 0)
                    for _ in range(dut.LEAD_CYCLES - 1):
                        await ctx.tick()
                    values = [rng.choice((random_int(rng, 32), LEAST, MOST)) for _ in range(2 * rows_per_beat)]
                    for row, given in enumerate(dut.scaled_gradients):
                        ctx.set(given, {"total": values[2 * row], "difference": values[2 * row + 1]})
                    for _ in range(SCALED_GRADIENT_LATENCY):
                        await ctx.tick()
                    words = randomness.random_words(now, range(group, group + 1), lanes)[0].tolist()
                    exact = [rounded(value, word, cut) for value, word in zip(values, words, strict=True)]
                    got = [(ctx.get(each.total), ctx.get(each.difference)) for each in dut.rounded]
                    assert np.ravel(got).tolist() == [min(value, MOST) for value in exact]
                    assert ctx.get(dut.clipped) == sum((value > MOST) << i for i, value in enumerate(exact))
                    assert ctx.get(dut.seed_now) == (now + last * SEED_STEP) & 0xFFFFFFFF
                    for row, given in enumerate(dut.scaled_gradients):
                        ctx.set(given, {"total": rng.getrandbits(31), "difference": -row})
                    for _ in range(rng.choice((0, 1, 3))):  # the results are stable
                        await ctx.tick()
                        got = [(ctx.get(each.total), ctx.get(each.difference)) for each in dut.rounded]
                        assert np.ravel(got).tolist() == [min(value, MOST) for value in exact]
                        assert ctx.get(dut.clipped) == 0

        simulator.run(testbench)

    for i in range(8):
        once(Random(seed + i))
