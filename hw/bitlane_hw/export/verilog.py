"""Verilog of the accelerator, alone or behind the ports of a chip."""

from __future__ import annotations

import re
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Signal, Value
from amaranth.lib import wiring

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.common.expectations import Asserting
from bitlane_hw.zynq.fabric import ZynqFabric
from bitlane_hw.zynq.top import FABRIC_TOP, Zynq
from bitlane_hw.zynq.top import TOP as ZYNQ_TOP
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

TOP = "bitlane_accelerator"
HALF_PORT = re.compile(r"(m_axi\d*)_(read|write)")  # one port outside


def ports(component: wiring.Component) -> dict[str, tuple[Value, None]]:
    """Return the ports of `component` for the back ends of Amaranth, named by their paths joined with underscores.

    Constant members (the `ready` of a stream that is always ready) are left out, because Amaranth refuses them.
    """
    return {
        port_name(path): (Value.cast(value), None)
        for path, _member, value in component.signature.flatten(component)
        if isinstance(Value.cast(value), Signal)
    }


def port_name(path: tuple[str | int, ...]) -> str:
    """Return the name of the port of a member."""
    return "_".join(HALF_PORT.sub(r"\1", str(part)) for part in path)


def to_verilog(component: wiring.Component, name: str) -> str:
    """Return the Verilog of `component`, with the top module `name`, for synthesis and for simulators of any kind."""
    return for_simulators(yosys_verilog(component, name))


def asserting_verilog(component: wiring.Component, name: str) -> str:
    """Return the same circuit in SystemVerilog, with assertions of what its blocks expect of each other."""
    return for_simulators(yosys_verilog(component, name, Asserting()))


def yosys_verilog(component: wiring.Component, name: str, platform: Asserting | None = None) -> str:
    """Return the Verilog of `component` as Yosys writes it, with the top module `name`."""
    options = {"emit_src": False, "strip_internal_attrs": True}
    return verilog.convert(component, platform=platform, name=name, ports=ports(component), **options)


# In each module Yosys declares a trigger, and most of its combinational blocks read it: `if (trigger) begin end`.
TRIGGER = re.compile(r"^  reg (\\\$auto\$verilog_backend\S+)  = 0;$", re.MULTILINE)
BARE_BLOCK = re.compile(r"^  always @\*\n    (.+;)$", re.MULTILINE)
EMPTY_WIRE = re.compile(r"^  wire \[-1:0\] .+;\n", re.MULTILINE)


def for_simulators(text: str) -> str:
    """Return Verilog of Yosys so that simulators with four states compute it from power-up. The circuit is the same.

    A block `always @*` runs when a signal that it reads changes. Where a struct is driven in parts, Yosys writes some
    of these blocks without its trigger. Such a block does not run while its signals keep their initial values, and its
    outputs are X. Here all blocks read the trigger, and the trigger changes after all of them wait for it: a value in
    its declaration alone may be set before, which is no event (IEEE 1800, 6.8).

    Wires without a bit, which Yosys declares as `wire [-1:0]`, are left out: nothing reads them.
    """
    return "".join(_with_triggers(module) for module in re.split(r"(?<=^endmodule\n)", text, flags=re.MULTILINE))


def _with_triggers(module: str) -> str:
    module = EMPTY_WIRE.sub("", module)
    found = TRIGGER.search(module)
    if found is None:
        return module
    declaration, trigger = found[0], found[1]
    module = BARE_BLOCK.sub(
        lambda block: f"  always @* begin\n    if ({trigger} ) begin end\n    {block[1]}\n  end", module
    )
    return module.replace(declaration, f"{declaration}\n  initial {trigger} <= 1'h1;")


def generate(config: AcceleratorConfig, path: Path) -> None:
    """Write the Verilog of the accelerator, top module `bitlane_accelerator`, to `path`."""
    path.write_text(to_verilog(Accelerator(config), TOP))


def generate_two_ports(config: AcceleratorConfig, path: Path) -> None:
    """Write the Verilog of `TwoPortAccelerator`, top module `bitlane_accelerator`, to `path`.

    Raises
    ------
    ValueError
        The build has another width; no file is written.
    """
    path.write_text(to_verilog(TwoPortAccelerator(config), TOP))


def generate_zynq(config: AcceleratorConfig, path: Path, build: int | None = None) -> None:
    """Write the Verilog of the complete design, top module `bitlane_zynq`, to `path`; `build` is as for `Zynq`.

    It is for synthesis: the text is that of Yosys, whose lines and numbers the bytes of a bitstream depend on.

    Raises
    ------
    ValueError
        The build does not fit the ports of a Zynq-7000; no file is written.
    """
    path.write_text(yosys_verilog(Zynq(config, build), ZYNQ_TOP))


def generate_fabric(config: AcceleratorConfig, path: Path) -> None:
    """Write the Verilog of `ZynqFabric`, top module `bitlane_fabric`, to `path`; it is for simulators."""
    path.write_text(to_verilog(ZynqFabric(config), FABRIC_TOP))
