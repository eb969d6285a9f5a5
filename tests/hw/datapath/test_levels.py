"""The tables of levels, and the places that codes and draws name in them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.blocks import Coded, config, looked_up, pack, run, some_int, some_slots

from bitlane_hw.datapath.levels import LevelLookup, LevelTables

CONFIG = config(table=True)
LANES, SLOTS, SLOT_BITS = 32, 64, 6


@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_tables(seed: int, base_bits: int) -> None:
    """Every level loaded can be read at both ports from the next cycle on, at any places, also while others load."""
    rng = Random(seed)
    dut = LevelTables(CONFIG)
    count, span = (1 << base_bits) + 1, 2 << base_bits
    loads = [(chunk, level) for chunk in range(CONFIG.max_chunks) for level in range(count)] * 2
    rng.shuffle(loads)
    written = [chunk * span + level for chunk in range(CONFIG.max_chunks) for level in range(count)]

    async def testbench(ctx: Any) -> None:
        slots = [[0] * SLOTS for _ in range(LANES)]
        expected: dict[str, list[int]] = {}
        ctx.set(dut.settings, {"base_digits": base_bits // 2, "half": base_bits % 2})
        for cycle in range(3 * len(loads)):
            ports = {"dot": dut.dot, "gradient": dut.gradient}
            for name, levels in expected.items():
                assert ctx.get(ports[name].levels) == pack(levels, 18), (name, cycle)
            load = bool(loads) and (cycle == 0 or rng.random() < 0.7)
            expected = {}
            for name, port in ports.items():
                places = [rng.choice(written) for _ in range(LANES)]
                ctx.set(port.addresses, pack(places, SLOT_BITS))
                if not load or name == "gradient":
                    expected[name] = [lane[place] for lane, place in zip(slots, places, strict=True)]
            values = [some_int(rng, 18) for _ in range(LANES)]
            chunk, level = loads.pop() if load else (rng.randrange(CONFIG.max_chunks), rng.randrange(count))
            ctx.set(dut.load, load)
            ctx.set(dut.chunk, chunk)
            ctx.set(dut.level, level)
            ctx.set(dut.loaded, pack(values, 32))
            if load:
                for lane, value in zip(slots, values, strict=True):
                    lane[chunk * span + level] = value
            await ctx.tick()
        assert not loads

    run(dut, testbench)


@pytest.mark.parametrize("base_bits", [1, 2, 3])
@pytest.mark.parametrize("rate", [1, 0.5])
def test_lookup(seed: int, base_bits: int, rate: float) -> None:
    """A cycle after a draw word code + u1 of all lanes, a cycle later code + u2, whatever word comes meanwhile."""
    rng = Random(seed)
    dut = LevelLookup(CONFIG)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, {"base_digits": base_bits // 2, "half": base_bits % 2})
        due: dict[int, list[int]] = {}
        cycle, drawn = 0, -2

        async def tick() -> None:
            nonlocal cycle
            if cycle in due:
                assert ctx.get(dut.addresses) == pack(due.pop(cycle), SLOT_BITS), cycle
            cycle += 1
            await ctx.tick()

        for _ in range(12):
            row = Coded(rng, rng.randint(1, CONFIG.max_chunks), base_bits)
            for word in row.words():
                while rng.random() >= rate or (word["draw"] and cycle - drawn < 2):
                    ctx.set(dut.codes.valid, 0)
                    ctx.set(dut.codes.payload.as_value(), rng.getrandbits(64))
                    await tick()
                ctx.set(dut.codes.valid, 1)
                ctx.set(dut.codes.payload, word)
                if word["draw"]:
                    drawn = cycle
                    due[cycle + 1], due[cycle + 2] = row.places(word["chunk"])
                await tick()
        ctx.set(dut.codes.valid, 0)
        for _ in range(3):
            await tick()
        assert not due

    run(dut, testbench)


def test_the_tests_tables_answer_as_the_tables_do(seed: int) -> None:
    rng = Random(seed)
    slots = some_slots(rng, SLOTS)
    places = [rng.randrange(SLOTS) for _ in range(LANES)]
    found = looked_up(slots, pack(places, SLOT_BITS))
    assert found == pack([lane[place] for lane, place in zip(slots, places, strict=True)], 18)
