"""From beats to chunks of master weights."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.helpers.run_shapes import small_config
from tests.helpers.simulation import run

from bitlane_hw.memory.loader import Loader


@pytest.mark.parametrize(
    ("rows_per_beat", "outputs", "levels"),
    [(1, 1, 0), (1, 3, 0), (2, 2, 0), (8, 15, 0), (1, 1, 9), (2, 3, 5), (8, 15, 9)],
)
def test_chunks(seed: int, rows_per_beat: int, outputs: int, levels: int) -> None:
    """A chunk is loaded into its output, or level, two cycles after its last beat; the next beats may follow at once.

    Without further beats the register is 0 from the next cycle on.
    """
    rng = Random(seed)
    config = small_config(rows_per_beat, outputs, table_lanes=levels > 0)
    dut = Loader(config)
    width = 64 * rows_per_beat
    positions = [(output, chunk) for output in range(outputs + levels) for chunk in range(config.max_chunks)]

    def loads(ctx: Any) -> list[int]:
        """Return the model that is loaded, or the level; levels are counted after the models."""
        level = [outputs + ctx.get(dut.level)] if levels and ctx.get(dut.load_level) else []
        return [output for output in range(outputs) if ctx.get(dut.load) >> output & 1] + level

    async def testbench(ctx: Any) -> None:
        for rate in (1, 0.5):
            due = complete = None  # the chunk that is loaded in this cycle, and that of the next cycle
            for output, chunk in (*positions, (0, 0)):
                gathered: list[int] = []
                while len(gathered) < 16 // rows_per_beat:
                    valid = rng.random() < rate
                    beat = rng.getrandbits(width)
                    ctx.set(dut.beats.valid, valid)
                    payload = {"words": beat, "chunk": chunk, "output": output, "part": len(gathered)}
                    if not valid:  # not used
                        payload = {"words": beat, "part": rng.randrange(16 // rows_per_beat)}
                    ctx.set(dut.beats.payload, payload)
                    assert loads(ctx) == ([] if due is None else [due[0]])
                    if due is not None:
                        assert (ctx.get(dut.chunk), ctx.get(dut.masters)) == due[1:]
                    due, complete = complete, None
                    if valid:
                        gathered.append(beat)
                    await ctx.tick()
                complete = output, chunk, sum(beat << width * i for i, beat in enumerate(gathered))
            ctx.set(dut.beats.valid, 0)
            for _ in range(3):
                await ctx.tick()
            assert (loads(ctx), ctx.get(dut.masters)) == ([], 0)

    run(dut, testbench)
