"""A small block to mutate, and its test."""

from __future__ import annotations

SUM = '''"""A block of two sums, of which one goes nowhere."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def twos(number):
    count = 0
    while number > 0:
        number = number - 2
        count = count + 1
    return count


class Block(wiring.Component):
    a: In(3)
    b: In(3)
    total: Out(4)

    def elaborate(self, platform):
        m = Module()
        nothing = Signal(twos(6))
        m.d.comb += [self.total.eq(self.a + self.b), nothing.eq(self.a & self.b)]
        return m
'''
TEST = """
from amaranth.sim import Simulator

from bitlane_hw.block import Block


def test_sums():
    async def bench(ctx):
        for a in range(8):
            for b in range(8):
                ctx.set(block.a, a)
                ctx.set(block.b, b)
                assert ctx.get(block.total) == a + b

    block = Block()
    simulator = Simulator(block)
    simulator.add_testbench(bench)
    simulator.run()
"""
