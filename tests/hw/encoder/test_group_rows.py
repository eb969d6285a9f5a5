"""The rows of groups at the ends of batches, and the steps of the random words over them, by counting row by row."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.simulation import BlockSimulator

from bitlane.contract.prng import INDEX_STEP
from bitlane_hw.encoder.group_rows import GroupRows


def rows_of_groups(rng: Random, most: int) -> tuple[list[int], dict[str, int]]:
    """The rows of each group of some batches, and the settings that describe them."""
    batch_rows, rows = rng.randint(1, 5 * most), rng.randint(1, 12 * most)
    batch_rows, groups = min(batch_rows, rows), []
    for start in range(0, rows, batch_rows):
        left = min(batch_rows, rows - start)
        groups += [min(most, left - first) for first in range(0, left, most)]
    batch_groups = -(-batch_rows // most)
    tails = groups[batch_groups - 1], groups[-1]
    return groups, {
        "groups": len(groups),
        "batch_groups": batch_groups,
        "batch_tail": tails[0],
        "epoch_tail": tails[1],
    }


@pytest.mark.parametrize("most", [2, 8])
def test_rows_and_steps(most: int, seed: int) -> None:
    dut, rng = GroupRows(most), Random(seed)

    async def testbench(ctx: Any) -> None:
        for _ in range(10):
            groups, settings = rows_of_groups(rng, most)
            ctx.set(dut.begin, 1)
            for name, value in settings.items():
                ctx.set(getattr(dut, name), value)
            await ctx.tick().repeat(rng.randint(2, 4))
            steps = [ctx.get(dut.step)]
            await ctx.tick()
            ctx.set(dut.begin, 0)
            for rows in groups:
                while rng.random() < 0.3:
                    await ctx.tick()
                ctx.set(dut.take, 1)
                steps.append(ctx.get(dut.step))
                await ctx.tick()
                ctx.set(dut.take, 0)
                assert ctx.get(dut.present) == (1 << rows) - 1
            wanted = [rows * INDEX_STEP % (1 << 32) for rows in groups]
            assert steps[: len(groups) - 1] == wanted[:-1]  # nothing follows the last group

    BlockSimulator(dut).run(testbench)
