"""The dot lanes against exact integers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from bitlane_hw.dot import DotLanes, SignedSum
from bitlane_hw.payloads import dot_bits

from .support import CONFIG, pack, run, some_int

LANES = 32
LOWEST, HIGHEST = -(1 << 23), (1 << 23) - 1


def some_weights(rng: Random) -> list[int]:
    """32 weights: anything, or all at one extreme."""
    extreme = rng.choice((None, None, LOWEST, HIGHEST))
    return [some_int(rng, 24) if extreme is None else extreme for _ in range(LANES)]


def test_signed_sum(seed: int) -> None:
    rng = Random(seed)
    dut = SignedSum()
    cases = [([weight] * LANES, signs) for weight in (LOWEST, HIGHEST, 0, -1) for signs in (0, (1 << LANES) - 1)]
    cases += [(some_weights(rng), rng.getrandbits(LANES)) for _ in range(300)]
    sums = [sum(weight if signs >> j & 1 else -weight for j, weight in enumerate(weights)) for weights, signs in cases]

    async def testbench(ctx: Any) -> None:
        for cycle in range(len(cases) + SignedSum.latency):
            weights, signs = cases[cycle] if cycle < len(cases) else ([0] * LANES, 0)
            ctx.set(dut.weights, pack(weights, 24))
            ctx.set(dut.signs, signs)
            if cycle >= SignedSum.latency:
                assert ctx.get(dut.total) == sums[cycle - SignedSum.latency], cycle
            await ctx.tick()

    assert SignedSum.latency == 5
    run(dut, testbench)


class Row:
    """A row of digits [chunk][digit][lane], and what its dot products are."""

    def __init__(self, rng: Random, chunks: int, base_digits: int, draws: int, digit: int | None):
        self.digits = [
            [[rng.randrange(4) if digit is None else digit for _ in range(LANES)] for _ in range(base_digits + draws)]
            for _ in range(chunks)
        ]
        self.base_digits = base_digits
        self.end = {
            "label": some_int(rng, 16),
            "batch_last": rng.randrange(2),
            "epoch_last": rng.randrange(2),
        }

    def dots(self, model: list[list[int]]) -> tuple[int, int]:
        """q.X + u1.X and q.X + u2.X; the draw digit is 2 u1 + u2, as signs."""
        dots = [0, 0]
        b = self.base_digits
        for digits, weights in zip(self.digits, model, strict=False):
            for j, weight in enumerate(weights):
                q = sum((2 * digits[k][j] - 3) * 4 ** (b - 1 - k) for k in range(b))
                draw = digits[b][j] if len(digits) > b else None
                for i, high in enumerate((2, 1)):
                    u = 0 if draw is None else 1 if draw & high else -1
                    dots[i] += (q + u) * weight
        return dots[0], dots[1]


def check_rows(rng: Random, rows: list[Row], model: list[list[int]], rate: float) -> None:
    """All rows, word after word with gaps: each result in exactly the cycle it is promised for."""
    dut = DotLanes(CONFIG)
    words = []
    for row in rows:
        for chunk, digits in enumerate(row.digits):
            for k, digit in enumerate(digits):
                last = chunk == len(row.digits) - 1 and k == len(digits) - 1
                payload = {
                    "word": pack(digit, 2),
                    "chunk": chunk,
                    "draw": k == row.base_digits,
                    "first": k == 0,
                    "last_base": k == row.base_digits - 1,
                    "row_last": last,
                    "end": row.end,
                }
                words.append((payload, row if last else None))

    async def testbench(ctx: Any) -> None:
        due: dict[int, Row] = {}
        read = 0
        index = 0
        for cycle in range(100 * len(words)):
            ctx.set(dut.weights, pack(model[read], 24))
            valid = index < len(words) and rng.random() < rate
            ctx.set(dut.digits.valid, valid)
            if valid:
                payload, row = words[index]
                ctx.set(dut.digits.payload, payload)
                index += 1
                if row is not None:
                    due[cycle + DotLanes.latency] = row
            read = ctx.get(dut.address)
            expected = due.pop(cycle, None)
            assert ctx.get(dut.dots.valid) == (expected is not None), cycle
            if expected is not None:
                dots = ctx.get(dut.dots.payload)
                assert (dots.dot1, dots.dot2) == expected.dots(model)
                assert {name: dots.end[name] for name in expected.end} == expected.end
            await ctx.tick()
            if index == len(words) and not due:
                break
        assert index == len(words) and not due

    run(dut, testbench)


@pytest.mark.parametrize("rate", [1, 0.5])
def test_rows(seed: int, rate: float) -> None:
    rng = Random(seed)
    assert DotLanes.latency == 8
    for _ in range(3):
        draws = rng.randrange(2)
        base_digits = rng.randint(1 - draws, 5)
        chunks = rng.randint(1, CONFIG.max_chunks)
        model = [some_weights(rng) for _ in range(CONFIG.max_chunks)]
        rows = [Row(rng, chunks, base_digits, draws, rng.choice((None, None, 0, 3))) for _ in range(8)]
        check_rows(rng, rows, model, rate)


@pytest.mark.parametrize("weight", [LOWEST, HIGHEST])
@pytest.mark.parametrize(("base_digits", "draws"), [(16, 0), (15, 1), (0, 1)])
def test_extremes(seed: int, weight: int, base_digits: int, draws: int) -> None:
    """The largest sums there are fit `dot_bits`."""
    rng = Random(seed)
    model = [[weight] * LANES for _ in range(CONFIG.max_chunks)]
    rows = [Row(rng, CONFIG.max_chunks, base_digits, draws, digit) for digit in (0, 3)]
    assert all(abs(dot) < 1 << (dot_bits(CONFIG) - 1) for row in rows for dot in row.dots(model))
    check_rows(rng, rows, model, 1)
