"""What blocks expect of each other: a simulation stops where it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.expectations import Asserting
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.scalar import LossSum
from bitlane_hw.datapath.table_dot import TableDot
from bitlane_hw.datapath.table_pass import TablePass
from bitlane_hw.datapath.update import UpdateLanes
from bitlane_hw.memory.reader import Reader

DIGIT = AcceleratorConfig(64, 1, max_features=64)
TABLE = AcceleratorConfig(64, 1, max_features=64, level_slots=16)
Steps = list[dict[str, int]]  # members of the block and their values, cycle for cycle

# A block, inputs that satisfy what it expects, inputs that do not, and what the message says.
CASES: list[tuple[Callable[[], Any], Steps, Steps, str]] = [
    (lambda: GradientPass(DIGIT), [{"start": 1, "beats.valid": 1}], [{"start": 1}], "has not arrived"),
    (
        lambda: GradientPass(DIGIT),
        [{"start": 1, "beats.valid": 1, "settings.chunks": 1, "settings.base_digits": 1}] * 3,
        [{"start": 1, "beats.valid": 1, "settings.chunks": 2, "settings.base_digits": 2}] * 3,
        "starts before",
    ),
    (lambda: TablePass(TABLE), [{"start": 1, "beats.valid": 1}], [{"start": 1}], "has not arrived"),
    (
        lambda: TablePass(TABLE),
        [{"settings.chunks": 1}, *[{"start": 1, "beats.valid": 1, "settings.chunks": 1}, {"settings.chunks": 1}] * 2],
        [{"settings.chunks": 2}, *[{"start": 1, "beats.valid": 1, "settings.chunks": 2}] * 2],
        "starts before",
    ),
    (
        lambda: UpdateLanes(DIGIT),
        [{"load": 1, "loaded": 5}],
        [{"load": 1, "passes.valid": 1}],
        "in the cycle of a pass",
    ),
    (lambda: UpdateLanes(DIGIT), [{"passes.valid": 1}], [{"passes.valid": 1, "loaded": 5}], "is not 0"),
    (
        lambda: TableDot(TABLE),
        [{"digits.valid": 1, "digits.payload.draw": 1}, {}, {"digits.valid": 1, "digits.payload.draw": 1}],
        [{"digits.valid": 1, "digits.payload.draw": 1}, {"digits.valid": 1, "digits.payload.draw": 1}],
        "at once",
    ),
    (
        lambda: LossSum(1),
        [{"slopes.valid": 1}, {}, {}, {}, {}, {"clear": 1}],
        [{"slopes.valid": 1}, {}, {"clear": 1}],
        "before all rows",
    ),
]


def member(block: Any, path: str) -> Any:
    for name in path.split("."):
        block = getattr(block, name)
    return block


def simulate(block: Any, steps: Steps) -> None:
    async def bench(ctx: Any) -> None:
        used = {path for step in steps for path in step}
        for step in [*steps, {}]:
            for path in used:
                ctx.set(member(block, path), step.get(path, 0))
            await ctx.tick()

    simulator = Simulator(Fragment.get(block, Asserting()))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(("block", "right", "wrong", "text"), CASES)
def test_an_expectation(block: Callable[[], Any], right: Steps, wrong: Steps, text: str) -> None:
    simulate(block(), right)
    with pytest.raises(AssertionError, match=text):
        simulate(block(), wrong)


@pytest.mark.parametrize("answers", [1, 2])
def test_a_memory_that_answers_too_much_fills_the_fifo(answers: int) -> None:
    """Each request gets one beat, or a burst that does not end: the reader expects no more than it asked for."""
    reader = Reader(AcceleratorConfig(64, 1, max_features=64))

    async def bench(ctx: Any) -> None:
        ctx.set(reader.draw_sets, 1)
        settings = {"chunks": 1, "groups": 800, "epochs": 1, "base_digits": 1, "batch_groups": 1}
        ctx.set(reader.settings, settings)
        for region in reader.regions:
            ctx.set(region.beats, 4096)
            ctx.set(region.stride, 8 * 4096)
        ctx.set(reader.load, 1)
        await ctx.tick().repeat(3)
        ctx.set(reader.load, 0)
        ctx.set(reader.enable, 1)
        ctx.set(reader.axi.arready, 1)
        for _ in range(300):
            ctx.set(reader.axi.rvalid, 1)
            ctx.set(reader.axi.rlast, answers == 1)
            await ctx.tick()

    simulator = Simulator(Fragment.get(reader, Asserting()))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    if answers == 1:
        simulator.run()
    else:
        with pytest.raises(AssertionError, match="its FIFO is full"):
            simulator.run()
