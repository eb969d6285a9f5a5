"""The accelerator behind four pins, for place and route on chips with fewer pins than the accelerator has ports."""

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
    """Drive the inputs of the accelerator from a shift register, and shift its outputs out of another one.

    Both ends of every path from or to a port are flip-flops, so that the clock period is that of the accelerator.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    shift_in : 1 bit, in
        Shifted into the inputs.
    shift_out : 1 bit, out
        The outputs, one after the other. They are captured when the last bit of the input shift register is 1.
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
        captured = Signal(sum(map(len, outputs)))
        m.d.sync += [driving.eq(Cat(self.shift_in, driving)), captured.eq(captured >> 1)]
        with m.If(driving[-1]):
            m.d.sync += captured.eq(Cat(*outputs))
        m.d.comb += [Cat(*inputs).eq(driving), self.shift_out.eq(captured[0])]
        return m


def generate_pins(config: AcceleratorConfig, path: Path) -> None:
    """Write the Verilog of the accelerator behind its pins, top module `bitlane_pins`, to `path`."""
    path.write_text(to_verilog(Pins(config), TOP))
