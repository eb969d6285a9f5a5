"""The level memories, and the slots that codes and draws select."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.coded_rows import CodedRow, random_slots, read_levels
from tests.helpers.integer_model import pack, random_int
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import run

from bitlane_hw.datapath.codebook import CodebookLookup, CodebookMemory

CONFIG = small_config(table_lanes=True)
LANES, SLOTS, SLOT_BITS = 32, 64, 6


@pytest.mark.parametrize("base_bits", [1, 2, 3])
def test_loaded_levels_can_be_read(seed: int, base_bits: int) -> None:
    """A loaded level can be read at both ports from the next cycle on, at any address, also during other loads."""
    rng = Random(seed)
    dut = CodebookMemory(CONFIG)
    count, span = (1 << base_bits) + 1, 2 << base_bits
    loads = [(chunk, level) for chunk in range(CONFIG.max_chunks) for level in range(count)] * 2
    rng.shuffle(loads)
    written = [chunk * span + level for chunk in range(CONFIG.max_chunks) for level in range(count)]

    async def testbench(ctx: Any) -> None:
        slots = [[0] * SLOTS for _ in range(LANES)]
        expected: dict[str, list[int]] = {}
        ctx.set(dut.settings, {"base_digits": base_bits // 2, "half_digit": base_bits % 2})
        for cycle in range(3 * len(loads)):
            ports = {"dot": dut.dot, "gradient": dut.gradient}
            for name, levels in expected.items():
                assert ctx.get(ports[name].levels) == pack(levels, 18), (name, cycle)
            load = bool(loads) and (cycle == 0 or rng.random() < 0.7)
            expected = {}
            for name, port in ports.items():
                addresses = [rng.choice(written) for _ in range(LANES)]
                ctx.set(port.addresses, pack(addresses, SLOT_BITS))
                if not load or name == "gradient":
                    expected[name] = [lane[address] for lane, address in zip(slots, addresses, strict=True)]
            values = [random_int(rng, 18) for _ in range(LANES)]
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
    """One cycle after a draw word code + u1 of all lanes, one cycle later code + u2, independently of other words."""
    rng = Random(seed)
    dut = CodebookLookup(CONFIG)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings, {"base_digits": base_bits // 2, "half_digit": base_bits % 2})
        due: dict[int, list[int]] = {}
        cycle, drawn = 0, -2

        async def tick() -> None:
            nonlocal cycle
            if cycle in due:
                assert ctx.get(dut.addresses) == pack(due.pop(cycle), SLOT_BITS), cycle
            cycle += 1
            await ctx.tick()

        for _ in range(12):
            row = CodedRow(rng, rng.randint(1, CONFIG.max_chunks), base_bits)
            for word in row.words():
                while rng.random() >= rate or (word["draw"] and cycle - drawn < 2):
                    ctx.set(dut.codes.valid, 0)
                    ctx.set(dut.codes.payload.as_value(), rng.getrandbits(64))
                    await tick()
                ctx.set(dut.codes.valid, 1)
                ctx.set(dut.codes.payload, word)
                if word["draw"]:
                    drawn = cycle
                    due[cycle + 1], due[cycle + 2] = row.addresses(word["chunk"])
                await tick()
        ctx.set(dut.codes.valid, 0)
        for _ in range(3):
            await tick()
        assert not due

    run(dut, testbench)


def test_helper_reads_the_same_levels(seed: int) -> None:
    rng = Random(seed)
    slots = random_slots(rng, SLOTS)
    addresses = [rng.randrange(SLOTS) for _ in range(LANES)]
    found = read_levels(slots, pack(addresses, SLOT_BITS))
    assert found == pack([lane[address] for lane, address in zip(slots, addresses, strict=True)], 18)
