"""Row words and draws against `bitlane.contract.draws`, with thresholds at, above and below the random numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.helpers.simulation import BlockSimulator

from bitlane.contract.draws import DrawSet, draw_words, row_words
from bitlane.contract.encoding import ROW_WORD_CYCLES
from bitlane_hw.encoder.draws import DRAW_LATENCY, DRAW_LEAD, DrawLanes, RowWord

PARTS, SETS = 40, 3


def test_row_words(seed: int) -> None:
    rng, dut = Random(seed), RowWord()
    start = rng.getrandbits(32)
    expected = row_words(start, range(20)).tolist()

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.seed, start)
        ctx.set(dut.begin, 1)
        await ctx.tick().repeat(rng.randint(1, 3))
        ctx.set(dut.begin, 0)
        ctx.set(dut.seed, rng.getrandbits(32))
        for word in expected:
            waited = 1
            while not ctx.get(dut.next_valid):
                await ctx.tick()
                waited += 1
            assert waited == ROW_WORD_CYCLES
            for _ in range(rng.choice((0, 0, 3))):  # it stays
                await ctx.tick()
            ctx.set(dut.take, 1)
            await ctx.tick()
            ctx.set(dut.take, 0)
            assert ctx.get(dut.word) == word

    BlockSimulator(dut).run(testbench)


def test_draws(seed: int) -> None:
    rng, dut = Random(seed), DrawLanes(14, SETS)
    word, first_set = rng.getrandbits(32), rng.randrange(16)
    of_features = draw_words(row_words(word, range(1)), 4 * PARTS)[0]
    of_sets = [(of_features ^ DrawSet(word, (first_set + i) % 16).mask).tolist() for i in range(SETS)]
    row = int(row_words(word, range(1))[0])
    thresholds = []
    for each in map(rng.choice, zip(*of_sets, strict=True)):
        near = (each >> 16 if rng.random() < 0.5 else each & 0xFFFF) + rng.choice((-1, 0, 1))
        thresholds.append(rng.choice((min(max(near, 0), 1 << 16), 0, 1, 1 << 16, rng.randint(0, 1 << 16))))

    async def testbench(ctx: Any) -> None:
        started: dict[int, int] = {}
        part, cycle = 0, 0
        ctx.set(dut.first_set, first_set)
        while part < PARTS or cycle <= max(started) + DRAW_LATENCY:
            start = part < PARTS and rng.random() < 0.8
            ctx.set(dut.start, start)
            ctx.set(dut.row_first, part == 0 if start else rng.getrandbits(1))
            ctx.set(dut.row_word, row if part == 0 else rng.getrandbits(32))
            if start:
                started[cycle] = part
                part += 1
            for lane, position in enumerate(dut.positions):
                due = started.get(cycle - DRAW_LEAD)
                threshold = rng.randint(0, 1 << 16) if due is None else thresholds[4 * due + lane]
                up = int(threshold == 1 << 16 or (threshold > 0 and rng.getrandbits(1)))
                ctx.set(position, {"code": 0, "inside": threshold - up, "round_up": up})
            await ctx.tick()
            cycle += 1
            if (done := started.get(cycle - DRAW_LATENCY)) is not None:
                for words, digits in zip(of_sets, dut.digits, strict=True):
                    for lane in range(4):
                        each, threshold = words[4 * done + lane], thresholds[4 * done + lane]
                        expected = 2 * (each >> 16 < threshold) + (each & 0xFFFF < threshold)
                        assert ctx.get(digits) >> 2 * lane & 3 == expected

    BlockSimulator(dut).run(testbench)
