"""The dot products of table lanes against exact integers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.coded_rows import CodedRow, random_slots, read_levels
from tests.helpers.integer_model import pack, random_int
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import BlockSimulator, fields

from bitlane_hw.common.payloads import dot_bits
from bitlane_hw.datapath.table_dot import TableDot

CONFIG = small_config(table_lanes=True)
LANES, SLOTS = 32, 64
LATENCY = 9


@pytest.fixture(scope="module")
def lanes() -> BlockSimulator:
    return BlockSimulator(TableDot(CONFIG))


def dots(row: CodedRow, slots: list[list[int]], model: list[list[int]]) -> tuple[int, int]:
    """Return L1.X and L2.X."""
    sums = [0, 0]
    for chunk in range(len(row.codes)):
        for i, addresses in enumerate(row.addresses(chunk)):
            levels = [lane[address] for lane, address in zip(slots, addresses, strict=True)]
            sums[i] += sum(level * weight for level, weight in zip(levels, model[chunk], strict=True))
    return sums[0], sums[1]


def check_rows(
    lanes: BlockSimulator,
    rng: Random,
    rows: list[CodedRow],
    slots: list[list[int]],
    model: list[list[int]],
    rate: float,
) -> None:
    """Send all rows, word by word with gaps; check that each result is valid in exactly its cycle."""
    dut = lanes.dut
    base_bits = rows[0].base_bits
    ends = [{"label": random_int(rng, 16), "present": rng.randrange(2)} for _ in rows]
    queue = []
    for row, end in zip(rows, ends, strict=True):
        words = list(row.words())
        queue += [(row, {**word, "row_last": i == len(words) - 1, "end": end}) for i, word in enumerate(words)]

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, {"base_digits": base_bits // 2, "half_digit": base_bits % 2})
        waiting = list(reversed(queue))
        due: dict[int, tuple[CodedRow, dict[str, int]]] = {}
        weights: dict[int, int] = {}
        cycle, drawn, read = 0, -2, 0
        while waiting or due:
            valid = bool(waiting) and rng.random() < rate and not (waiting[-1][1]["draw"] and cycle - drawn < 2)
            ctx.set(dut.digits.valid, valid)
            ctx.set(dut.digits.payload.as_value(), rng.getrandbits(64))
            if valid:
                row, payload = waiting.pop()
                ctx.set(dut.digits.payload, payload)
                if payload["draw"]:
                    drawn = cycle
                    weights[cycle + 2] = pack(model[payload["chunk"]], 24)
                if payload["row_last"]:
                    due[cycle + LATENCY] = row, payload["end"]
            ctx.set(dut.weights, weights.pop(cycle, rng.getrandbits(24 * LANES)))
            ctx.set(dut.codebook.levels, read)
            expected = due.pop(cycle, None)
            assert ctx.get(dut.dots.valid) == (expected is not None), cycle
            if expected is not None:
                first, second = dots(expected[0], slots, model)
                assert fields(ctx.get(dut.dots.payload)) == {"dot1": first, "dot2": second, "end": expected[1]}
            read = read_levels(slots, ctx.get(dut.codebook.addresses))
            cycle += 1
            await ctx.tick()

    lanes.run(testbench)


@pytest.mark.parametrize("base_bits", [1, 2, 3])
@pytest.mark.parametrize("rate", [1, 0.5])
def test_rows(seed: int, lanes: BlockSimulator, base_bits: int, rate: float) -> None:
    rng = Random(seed)
    assert TableDot.latency == LATENCY
    for _ in range(3):
        model = [[random_int(rng, 24) for _ in range(LANES)] for _ in range(CONFIG.max_chunks)]
        rows = [CodedRow(rng, rng.randint(1, CONFIG.max_chunks), base_bits) for _ in range(6)]
        check_rows(lanes, rng, rows, random_slots(rng, SLOTS), model, rate)


@pytest.mark.parametrize("weight", [-(1 << 23), (1 << 23) - 1])
@pytest.mark.parametrize("level", [-(1 << 17), (1 << 17) - 1])
def test_extremes(seed: int, lanes: BlockSimulator, weight: int, level: int) -> None:
    """The largest possible sums fit."""
    rng = Random(seed)
    model = [[weight] * LANES for _ in range(CONFIG.max_chunks)]
    slots = [[level] * SLOTS for _ in range(LANES)]
    assert abs(level * weight) * CONFIG.max_features < 1 << (dot_bits(CONFIG.max_features) - 1)
    check_rows(lanes, rng, [CodedRow(rng, CONFIG.max_chunks, 2) for _ in range(2)], slots, model, 1)
