"""Chunks of models and records of epochs as beats."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.integer_model import pack, random_int
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.memory.storer import Storer


@pytest.mark.parametrize(("width", "shards", "ports"), [(512, 2, 8), (256, 4, 2), (128, 1, 2), (512, 8, 4)])
def test_a_port_has_its_part_of_each_beat(seed: int, width: int, shards: int, ports: int) -> None:
    """Word (shard, row) of beat k holds the weights 2 i and 2 i + 1 of the shard, with i = rows k + row."""
    rng, rows = Random(seed), width // 64 // shards
    config = AcceleratorConfig(width, shards=shards, ports=ports)
    masters = [[random_int(rng, 32) for _ in range(32)] for _ in range(shards)]
    port, size = rng.randrange(ports), width // 64 // ports
    dut = Storer(config, port)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.masters, pack([each for shard in masters for each in shard], 32))
        ctx.set(dut.begin, 1)
        await ctx.tick()
        ctx.set(dut.begin, 0)
        ctx.set(dut.beats.ready, 1)
        for beat in range(16 // rows):
            firsts = [(shard, 2 * (beat * rows + row)) for shard in range(shards) for row in range(rows)]
            words = [pack(masters[shard][i : i + 2], 32) for shard, i in firsts[port * size : (port + 1) * size]]
            assert ctx.get(dut.beats.payload) == pack(words, 64), beat
            await ctx.tick()

    run(dut, testbench)


@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (1, 15), (2, 1), (4, 5), (8, 1), (8, 15)])
def test_beats(seed: int, rows_per_beat: int, outputs: int) -> None:
    """The beats of each request from the first one on, independently of earlier requests."""
    rng = Random(seed)
    dut = Storer(small_config(rows_per_beat, outputs))
    width = 64 * rows_per_beat
    record_words = max(rows_per_beat, 1 << outputs.bit_length())

    async def testbench(ctx: Any) -> None:
        for _ in range(20):
            trace = rng.randrange(2)
            masters = [random_int(rng, 32) for _ in range(32)]
            stamp, losses = rng.getrandbits(64), [random_int(rng, 64) for _ in range(outputs)]
            content = pack([stamp, *losses], 64) if trace else pack(masters, 32)
            ctx.set(dut.begin, 1)
            ctx.set(dut.beats.ready, 0)
            await ctx.tick()
            ctx.set(dut.begin, 0)
            ctx.set(dut.trace, trace)
            ctx.set(dut.masters, pack(masters, 32))
            ctx.set(dut.stamp, stamp)
            for port, loss in zip(dut.losses, losses, strict=True):
                ctx.set(port, loss & (1 << 64) - 1)
            for i in range((record_words if trace else 16) // rows_per_beat):
                ready = False
                while not ready:
                    ready = rng.random() < 0.6
                    ctx.set(dut.beats.ready, ready)
                    assert ctx.get(dut.beats.payload) == content >> width * i & (1 << width) - 1, i
                    await ctx.tick()

    run(dut, testbench)
