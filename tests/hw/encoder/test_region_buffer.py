"""The buffer of the regions: each word reaches its address, and a request that waits stays as it is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import fields, run

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import request_layout
from bitlane_hw.encoder.region_buffer import DEPTH, RESERVE, RegionBuffer

REGIONS, LINE_BYTES = 3, 128
LIMIT = 20_000  # cycles


def test_words_and_requests(seed: int) -> None:
    rng, config = Random(seed), AcceleratorConfig()
    dut = RegionBuffer(config.address_bits, REGIONS, request_layout(config))
    begins = [LINE_BYTES * (rng.randint(1, 100) + 10_000 * region) for region in range(REGIONS)]
    words = [[rng.getrandbits(64) for _ in range(rng.randint(least, 300))] for least in (100, 0, 0)]
    memory: dict[int, int] = {}
    waited = 0

    async def testbench(ctx: Any) -> None:
        nonlocal waited
        for port, begin in zip(dut.addresses, begins, strict=True):
            ctx.set(port, begin)
        ctx.set(dut.load, 1)
        await ctx.tick()
        ctx.set(dut.load, 0)
        given, left, address, waiting = [0] * REGIONS, 0, 0, None
        for _ in range(LIMIT):
            ended = given == [len(own) for own in words]
            for port, own, region in zip(dut.words, words, range(REGIONS), strict=True):
                sends = given[region] < len(own) and rng.random() < 0.5
                ctx.set(port.valid, sends)
                if sends:
                    ctx.set(port.payload, own[given[region]])
                given[region] += sends
            ctx.set(dut.flush, ended)
            ctx.set(dut.requests.ready, rng.random() < 0.2)
            ctx.set(dut.beats.ready, left > 0 and rng.random() < 0.7)
            request = fields(ctx.get(dut.requests.payload)) if ctx.get(dut.requests.valid) else None
            if waiting is not None:
                assert request == waiting
                waited += 1
            if ctx.get(dut.beats.ready):
                memory[address] = ctx.get(dut.beats.payload)
                address, left = address + 8, left - 1
            waiting = request
            if request is not None and ctx.get(dut.requests.ready):
                assert left == 0 and 0 < request["beats"] <= BURST_BEATS
                address, left, waiting = request["address"], request["beats"], None
            if ended and ctx.get(dut.empty) and left == 0 and request is None:
                break
            await ctx.tick()

    run(dut, testbench)
    assert waited
    assert memory == {
        begin + 8 * number: word for begin, own in zip(begins, words, strict=True) for number, word in enumerate(own)
    }


@pytest.mark.parametrize("region", range(REGIONS))
def test_room_falls_with_each_region_and_returns(seed: int, region: int) -> None:
    """While the writer takes nothing, `RESERVE` more beats fit after `room` has fallen, and none is lost."""
    rng, config = Random(seed), AcceleratorConfig()
    dut = RegionBuffer(config.address_bits, REGIONS, request_layout(config))
    words: list[int] = []
    found: list[int] = []

    async def testbench(ctx: Any) -> None:
        async def give() -> None:
            words.append(rng.getrandbits(64))
            ctx.set(dut.words[region].payload, words[-1])
            ctx.set(dut.words[region].valid, 1)
            await ctx.tick()
            ctx.set(dut.words[region].valid, 0)

        await ctx.tick().repeat(2)
        while ctx.get(dut.room):
            assert len(words) <= DEPTH - RESERVE, "the room does not fall"
            await give()
        assert len(words) > DEPTH - 3 * RESERVE, "the room falls long before it must"
        for _ in range(RESERVE):
            await give()
        ctx.set(dut.flush, 1)
        left = 0
        for _ in range(LIMIT):
            ctx.set(dut.beats.ready, left > 0)
            ctx.set(dut.requests.ready, left == 0)
            if left:
                found.append(ctx.get(dut.beats.payload))
                left -= 1
            elif ctx.get(dut.requests.valid):
                left = ctx.get(dut.requests.payload)["beats"]
            elif ctx.get(dut.empty):
                break
            await ctx.tick()
        await ctx.tick().repeat(2)
        assert ctx.get(dut.room)

    run(dut, testbench)
    assert found == words
