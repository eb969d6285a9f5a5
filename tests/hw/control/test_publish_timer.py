"""The time at which a batch is published, for every precision and build."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import run

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import publish_latency
from bitlane.contract.geometry import Geometry
from bitlane_hw.control.publish_timer import PublishTimer

CYCLES = 300


def builds() -> list[AcceleratorConfig]:
    """Return builds of two ports with each reason for another latency."""
    return [
        AcceleratorConfig(128, 1, 128, 128, ports=2),
        AcceleratorConfig(256, 1, 256, 256, shards=2, ports=2),
        AcceleratorConfig(128, 1, 128, 128, ports=2, random_rounding=True),
        AcceleratorConfig(256, 1, 256, 256, shards=4, ports=2, random_rounding=True),
    ]


@pytest.mark.parametrize("config", builds(), ids=["rows", "shards", "rounding", "both"])
@pytest.mark.parametrize("precision", [(1, 0), (0, 1), (3, 1), (15, 1), (16, 0)], ids=str)
def test_a_batch_is_told_one_cycle_before_its_model_may_be_read(
    seed: int, config: AcceleratorConfig, precision: tuple[int, int]
) -> None:
    rng = Random(seed)
    digits, draws = precision
    geometry = Geometry(40, 100, digits, bool(draws), 8, config.rows_per_beat, shards=config.shards, ports=config.ports)
    expected = publish_latency(geometry, config.random_rounding) - 1
    dut = PublishTimer(config)
    taken = [rng.random() < 0.2 and cycle < CYCLES - 100 for cycle in range(CYCLES)]
    told = []

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings.base_digits, digits)
        ctx.set(dut.settings.draws, draws)
        await ctx.tick()
        for batch_taken in taken:
            ctx.set(dut.batch_taken, batch_taken)
            told.append(ctx.get(dut.published))
            await ctx.tick()

    run(dut, testbench)
    assert [cycle for cycle in range(CYCLES) if told[cycle]] == [
        cycle + expected for cycle in range(CYCLES) if taken[cycle]
    ]


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_table_lanes(seed: int, bits: int) -> None:
    config = AcceleratorConfig(128, 1, 128, 128, ports=2, level_slots=256)
    geometry = Geometry(40, 100, bits // 2, True, 8, 2, half_digit=bits % 2, codebook=True, ports=2)
    dut, told = PublishTimer(config), []

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.settings.half_digit, bits % 2)
        ctx.set(dut.settings.base_digits, bits // 2)
        ctx.set(dut.settings.draws, 1)
        await ctx.tick()
        for cycle in range(60):
            ctx.set(dut.batch_taken, cycle == 5)
            told.append(ctx.get(dut.published))
            await ctx.tick()

    run(dut, testbench)
    assert [cycle for cycle, each in enumerate(told) if each] == [5 + publish_latency(geometry) - 1]
