"""Simulation of a block with testbenches."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from amaranth.lib import data
from amaranth.sim import Simulator


class BlockSimulator:
    """A simulated block, compiled by the first of any number of testbenches."""

    def __init__(self, dut: Any, *, clocked: bool = True):
        self.dut = dut
        self._clocked = clocked
        self._simulator: Simulator | None = None
        self._testbench: Callable[[Any], Coroutine[Any, Any, None]] | None = None

    def run(self, testbench: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Simulate from reset until `testbench(ctx)` returns.

        The testbench sets inputs, reads outputs and ticks the clock, cycle by cycle.
        """
        self._testbench = testbench
        if self._simulator is None:
            self._simulator = Simulator(self.dut)
            if self._clocked:
                self._simulator.add_clock(1e-6)
            self._simulator.add_testbench(self._current)
        else:
            self._simulator.reset()
        self._simulator.run()

    async def _current(self, ctx: Any) -> None:
        assert self._testbench is not None
        await self._testbench(ctx)


def run(dut: Any, testbench: Callable[[Any], Coroutine[Any, Any, None]], *, clocked: bool = True) -> None:
    """Simulate a block with one testbench: see `BlockSimulator.run`."""
    BlockSimulator(dut, clocked=clocked).run(testbench)


def fields(value: Any) -> Any:
    """Return a struct or array from `ctx.get` as nested dictionaries and lists."""
    if not isinstance(value, data.Const):
        return value
    members = {key: fields(value[key]) for key, _ in value.shape()}
    return list(members.values()) if isinstance(value.shape(), data.ArrayLayout) else members
