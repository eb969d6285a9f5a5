"""The sizes of the regions, and the cycles of their computation."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.run_shapes import RunShape, settings, small_config
from tests.helpers.simulation import run

from bitlane_hw.memory.regions import RegionSizes


@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (2, 3), (8, 15)])
def test_sizes(seed: int, rows_per_beat: int, outputs: int) -> None:
    """Sets of any length; the next start may come as soon as the last sizes are valid."""
    rng = Random(seed)
    dut = RegionSizes(small_config(rows_per_beat, outputs))

    def case(chunks: int, base_digits: int, groups: int) -> RunShape:
        return RunShape(chunks, base_digits, 1, groups, 1, 1, rows_per_beat=rows_per_beat, outputs=outputs)

    most = (1 << 24) - 1
    cases = [
        case(chunks, base_digits, groups)
        for chunks in (1, 3, 4)
        for base_digits in (0, 1, 16)
        for groups in (1, 4, 5, most, rng.randint(1, most))
    ]
    cases += [case(rng.randint(1, 4), rng.randint(0, 16), rng.randint(1, most >> rng.randrange(24))) for _ in range(40)]

    async def testbench(ctx: Any) -> None:
        for geometry in cases:
            ctx.set(dut.settings, settings(geometry))
            ctx.set(dut.base_words, geometry.chunks * geometry.base_digits)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            cycles = 1
            while not ctx.get(dut.done):
                cycles += 1
                assert cycles < 40
                await ctx.tick()
            assert cycles == max(geometry.chunks * geometry.base_digits, geometry.chunks).bit_length() + 1
            for _ in range(rng.randint(1, 3)):
                assert ctx.get(dut.done)
                assert (ctx.get(dut.base_beats), ctx.get(dut.draw_beats)) == geometry.set_beats
                await ctx.tick()

    run(dut, testbench)


def test_sizes_have_the_width_of_a_beat_address() -> None:
    dut = RegionSizes(small_config(2))
    assert len(dut.base_beats) == len(dut.draw_beats) == small_config(2).address_bits - 3


def test_a_new_start_discards_the_computation(seed: int) -> None:
    """A run may start while the sizes of a refused run are still computed."""
    rng = Random(seed)
    dut = RegionSizes(small_config())
    refused = RunShape(chunks=4, base_digits=15, draws=1, groups=1000, batch_groups=1, epochs=1)
    geometry = RunShape(chunks=3, base_digits=5, draws=1, groups=7, batch_groups=1, epochs=1)

    async def testbench(ctx: Any) -> None:
        for _ in range(10):
            for given, wait in ((refused, rng.randint(1, 6)), (geometry, 20)):
                ctx.set(dut.settings, settings(given))
                ctx.set(dut.base_words, given.chunks * given.base_digits)
                ctx.set(dut.start, 1)
                await ctx.tick()
                ctx.set(dut.start, 0)
                await ctx.tick().repeat(wait)
            assert (ctx.get(dut.base_beats), ctx.get(dut.draw_beats)) == geometry.set_beats

    run(dut, testbench)
