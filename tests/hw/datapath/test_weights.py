"""Both memories of the model, and the cycle in which a write becomes visible."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import pack, random_int, unpack
from tests.helpers.run_shapes import CONFIG
from tests.helpers.simulation import run

from bitlane_hw.datapath.weights import Weights

LANES = 32


@pytest.mark.parametrize("banks", [1, 2])
def test_memories(seed: int, banks: int) -> None:
    """All chunks in one bank, or half of them in each of two banks: every address keeps the value last written."""
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
            values = [random_int(rng, 32) for _ in range(LANES)]
            ctx.set(dut.master_address, address)
            ctx.set(dut.published_address, published_address)
            ctx.set(dut.read_bank, read_bank)
            ctx.set(dut.write_address, written)
            ctx.set(dut.write_bank, write_bank)
            ctx.set(dut.write, write)
            ctx.set(dut.publish, publish)
            ctx.set(dut.masters, pack(values, 32))
            # A read returns the old word, also if its chunk is written in the same cycle.
            read, read_published = masters[address], published[read_bank][published_address]
            if write:
                masters[written] = values
            if write and publish:
                published[write_bank][written] = [value >> 8 for value in values]
            await ctx.tick()

    run(dut, testbench)
