"""The dot lanes against exact integers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import dots, pack, random_int
from tests.helpers.run_shapes import CONFIG
from tests.helpers.simulation import BlockSimulator, fields, run

from bitlane_hw.common.payloads import dot_bits
from bitlane_hw.datapath.dot import DotLanes, SignedSum

LANES = 32
LOWEST, HIGHEST = -(1 << 23), (1 << 23) - 1


@pytest.fixture(scope="module")
def lanes() -> BlockSimulator:
    return BlockSimulator(DotLanes(CONFIG))


def random_weights(rng: Random) -> list[int]:
    """Return 32 random weights, or all at the same extreme."""
    extreme = rng.choice((None, None, LOWEST, HIGHEST))
    return [random_int(rng, 24) if extreme is None else extreme for _ in range(LANES)]


def test_signed_sum(seed: int) -> None:
    rng = Random(seed)
    dut = SignedSum()
    cases = [([weight] * LANES, signs) for weight in (LOWEST, HIGHEST, 0, -1) for signs in (0, (1 << LANES) - 1)]
    cases += [(random_weights(rng), rng.getrandbits(LANES)) for _ in range(300)]
    sums = [sum(weight if signs >> j & 1 else -weight for j, weight in enumerate(weights)) for weights, signs in cases]

    async def testbench(ctx: Any) -> None:
        for cycle in range(len(cases) + SignedSum.latency):
            weights, signs = cases[cycle] if cycle < len(cases) else ([0] * LANES, 0)
            ctx.set(dut.weights, pack(weights, 24))
            ctx.set(dut.signs, signs)
            if cycle >= SignedSum.latency:
                total = ctx.get(dut.total)
                assert (total if ctx.get(dut.positive) else -total) == sums[cycle - SignedSum.latency], cycle
            await ctx.tick()

    assert SignedSum.latency == 3
    run(dut, testbench)


class Row:
    """A row of digits [chunk][digit][lane]."""

    def __init__(self, rng: Random, chunks: int, base_digits: int, draws: int, digit: int | None):
        self.digits = [
            [[rng.randrange(4) if digit is None else digit for _ in range(LANES)] for _ in range(base_digits + draws)]
            for _ in range(chunks)
        ]
        self.base_digits = base_digits
        self.end = {"label": random_int(rng, 16), "present": rng.randrange(2)}

    def words(self) -> list[dict[str, Any]]:
        """Return the payloads of the `digits` port."""
        return [
            {
                "word": pack(digit, 2),
                "draw": k == self.base_digits,
                "first": k == 0,
                "last_base": k == self.base_digits - 1,
                "row_last": chunk == len(self.digits) - 1 and k == len(digits) - 1,
                "end": self.end,
            }
            for chunk, digits in enumerate(self.digits)
            for k, digit in enumerate(digits)
        ]


def check_rows(lanes: BlockSimulator, rng: Random, rows: list[Row], model: list[list[int]], rate: float) -> None:
    """Send all rows, word by word with gaps; check that each result is valid in exactly its cycle."""
    dut = lanes.dut
    queue = [(row, word, i // len(row.digits[0])) for row in rows for i, word in enumerate(row.words())]
    weights = [pack(chunk, 24) for chunk in model]

    async def testbench(ctx: Any) -> None:
        due: dict[int, Row] = {}
        waiting = list(reversed(queue))
        cycle = 0
        while waiting or due:
            valid = bool(waiting) and rng.random() < rate
            ctx.set(dut.digits.valid, valid)
            read = rng.getrandbits(24 * LANES)
            if valid:
                row, payload, chunk = waiting.pop()
                ctx.set(dut.digits.payload, payload)
                read = weights[chunk]
                if payload["row_last"]:
                    due[cycle + DotLanes.latency] = row
            else:
                ctx.set(dut.digits.payload.word, rng.getrandbits(64))
            expected = due.pop(cycle, None)
            assert ctx.get(dut.dots.valid) == (expected is not None), cycle
            if expected is not None:
                first, second = dots(expected.digits, expected.base_digits, model)
                assert fields(ctx.get(dut.dots.payload)) == {"dot1": first, "dot2": second, "end": expected.end}
            await ctx.tick()
            ctx.set(dut.weights, read)
            cycle += 1

    lanes.run(testbench)


@pytest.mark.parametrize("rate", [1, 0.5])
def test_rows(seed: int, lanes: BlockSimulator, rate: float) -> None:
    rng = Random(seed)
    assert DotLanes.latency == 6
    for _ in range(6):
        draws = rng.randrange(2)
        base_digits = rng.randint(1 - draws, 5)
        model = [random_weights(rng) for _ in range(CONFIG.max_chunks)]
        rows = [
            Row(rng, rng.randint(1, CONFIG.max_chunks), base_digits, draws, rng.choice((None, None, 0, 3)))
            for _ in range(8)
        ]
        check_rows(lanes, rng, rows, model, rate)


@pytest.mark.parametrize("weight", [LOWEST, HIGHEST])
@pytest.mark.parametrize(("base_digits", "draws"), [(16, 0), (15, 1), (0, 1)])
def test_extremes(seed: int, lanes: BlockSimulator, weight: int, base_digits: int, draws: int) -> None:
    """The largest possible sums fit `dot_bits`."""
    rng = Random(seed)
    model = [[weight] * LANES for _ in range(CONFIG.max_chunks)]
    rows = [Row(rng, CONFIG.max_chunks, base_digits, draws, digit) for digit in (0, 3)]
    assert all(
        abs(dot) < 1 << (dot_bits(CONFIG.max_features) - 1)
        for row in rows
        for dot in dots(row.digits, base_digits, model)
    )
    check_rows(lanes, rng, rows, model, 1)
