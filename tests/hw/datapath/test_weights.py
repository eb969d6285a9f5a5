"""Both memories of the model, and when a write is seen."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.blocks import CONFIG, pack, run, some_int, unpack

from bitlane_hw.datapath.weights import Weights

LANES = 32


@pytest.mark.parametrize("banks", [1, 2])
def test_memories(seed: int, banks: int) -> None:
    """All chunks in one bank, or half of them in each of two: every place keeps what was last written there."""
    rng = Random(seed)
    dut = Weights(CONFIG)
    chunks = CONFIG.max_chunks // banks

    async def testbench(ctx: Any) -> None:
        masters = [[0] * LANES for _ in range(chunks)]
        published = [[[0] * LANES for _ in range(chunks)] for _ in range(banks)]
        read: list[int] = [0] * LANES
        read_published: list[int] = [0] * LANES
        for cycle in range(300):
            if cycle:
                assert unpack(ctx.get(dut.master), LANES, 32) == read
                assert unpack(ctx.get(dut.published), LANES, 24) == read_published
            address, published_address, written = (rng.randrange(chunks) for _ in range(3))
            read_bank, write_bank = rng.randrange(banks), rng.randrange(banks)
            write, publish = rng.randrange(2), rng.randrange(2)
            values = [some_int(rng, 32) for _ in range(LANES)]
            ctx.set(dut.master_address, address)
            ctx.set(dut.published_address, published_address)
            ctx.set(dut.read_bank, read_bank)
            ctx.set(dut.write_address, written)
            ctx.set(dut.write_bank, write_bank)
            ctx.set(dut.write, write)
            ctx.set(dut.publish, publish)
            ctx.set(dut.masters, pack(values, 32))
            # A read gives the old word, also of the chunk that is written in its cycle.
            read, read_published = masters[address], published[read_bank][published_address]
            if write:
                masters[written] = values
            if write and publish:
                published[write_bank][written] = [value >> 8 for value in values]
            await ctx.tick()

    run(dut, testbench)
