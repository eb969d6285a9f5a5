"""Paths from inputs to outputs without a register are found bit by bit, and no exported top has one."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bitlane_hw.control.registers import Registers
from bitlane_verify.formal import port_paths as module
from bitlane_verify.formal.port_paths import TOPS, main, port_paths


class Paths(wiring.Component):
    """Outputs that depend on inputs at once, or a cycle later."""

    def __init__(self) -> None:
        super().__init__(
            {
                "a": In(2),
                "b": In(2),
                "direct": Out(1),  # of the low bit of a wire, whose high bit is a register
                "through_memory": Out(4),
                "through_block": Out(1),
                "registered": Out(1),
                "constant": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        wire, stored = Signal(2), Signal()
        m.submodules.memory = memory = Memory(shape=4, depth=4, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.submodules.block = block = Module()
        block.d.comb += self.through_block.eq(self.a[1] & stored)
        m.d.sync += stored.eq(self.b[1])
        m.d.comb += [
            *(wire[0].eq(self.b[0]), wire[1].eq(stored), self.direct.eq(wire[0]), self.registered.eq(wire[1])),
            *(read.addr.eq(self.a), self.through_memory.eq(read.data), self.constant.eq(1)),
            *(write.addr.eq(self.b), write.en.eq(1)),
        ]
        return m


def test_paths_are_found_bit_by_bit() -> None:
    assert port_paths(Paths()) == [("a", "through_block"), ("a", "through_memory"), ("b", "direct")]


class Hasty(Registers):
    """A register slave that is ready in the cycle in which address and data come."""

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        both = self.bus.awvalid & self.bus.wvalid & ~self.bus.bvalid
        m.d.comb += [self.bus.awready.eq(both), self.bus.wready.eq(both)]
        return m


def test_a_hasty_slave_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert port_paths(Registers()) == []
    expected = [(f"bus_{valid}valid", f"bus_{ready}ready") for valid in ("aw", "w") for ready in ("aw", "w")]
    assert port_paths(Hasty()) == expected
    monkeypatch.setattr(module, "TOPS", {"good": Registers, "hasty": Hasty})
    assert main() == 1
    good, hasty, *paths = capsys.readouterr().out.splitlines()
    assert good.endswith("no path from an input to an output") and hasty.endswith("4 paths")
    assert paths == [f"    from {source} to {target}" for source, target in expected]


TOP, *OTHERS = TOPS


@pytest.mark.parametrize("top", [TOP, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)])
def test_no_exported_top_has_a_path(top: str) -> None:
    assert port_paths(TOPS[top]()) == []
