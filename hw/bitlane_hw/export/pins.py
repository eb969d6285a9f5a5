"""The accelerator behind four pins, for place and route: what a chip has fewer of than a block has ports."""

from __future__ import annotations

from pathlib import Path

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator

from .verilog import to_verilog

TOP = "bitlane_pins"


class Pins(wiring.Component):
    """A shift register drives every input of the accelerator, and another takes every output in turn.

    Both ends of every path from or to a port are flip-flops, so that the clock's period is that of the accelerator.

    Members
    -------
    shift_in: In(1), into the inputs. shift_out: Out(1), of the outputs, which are taken while shift_in was high last.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__({"shift_in": In(1), "shift_out": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.accelerator = accelerator = Accelerator(self._config)
        inputs, outputs = [], []
        for _path, member, value in accelerator.signature.flatten(accelerator):
            (inputs if member.flow is In else outputs).append(Value.cast(value))
        driving = Signal(sum(map(len, inputs)))
        taken = Signal(sum(map(len, outputs)))
        m.d.sync += [driving.eq(Cat(self.shift_in, driving)), taken.eq(taken >> 1)]
        with m.If(driving[-1]):
            m.d.sync += taken.eq(Cat(*outputs))
        m.d.comb += [Cat(*inputs).eq(driving), self.shift_out.eq(taken[0])]
        return m


def generate_pins(config: AcceleratorConfig, path: Path) -> None:
    """Write Verilog of the accelerator behind its pins, top module `bitlane_pins`, to `path`."""
    path.write_text(to_verilog(Pins(config), TOP))
