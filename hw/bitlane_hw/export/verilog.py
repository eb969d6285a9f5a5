"""Verilog of the accelerator, alone or behind the ports of a chip: `python -m bitlane_hw.export.verilog FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Signal, Value
from amaranth.lib import wiring

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.zynq.fabric import ZynqFabric
from bitlane_hw.zynq.top import FABRIC_TOP, Zynq
from bitlane_hw.zynq.top import TOP as ZYNQ_TOP
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

TOP = "bitlane_accelerator"
RENAMES = {"m_axi_read": "m_axi", "m_axi_write": "m_axi"}  # one port outside


def ports(component: wiring.Component) -> dict[str, tuple[Value, None]]:
    """Return the ports of `component` for the back ends of Amaranth, named by their paths joined with underscores.

    Constant members (the `ready` of a stream that is always ready) are left out, because Amaranth refuses them.
    """
    return {
        "_".join(RENAMES.get(str(part), str(part)) for part in path): (Value.cast(value), None)
        for path, _member, value in component.signature.flatten(component)
        if isinstance(Value.cast(value), Signal)
    }


def to_verilog(component: wiring.Component, name: str) -> str:
    """Return the Verilog of `component`, with the top module `name`."""
    return verilog.convert(component, name=name, ports=ports(component), emit_src=False, strip_internal_attrs=True)


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

    Raises
    ------
    ValueError
        The build does not fit the ports of a Zynq-7000; no file is written.
    """
    path.write_text(to_verilog(Zynq(config, build), ZYNQ_TOP))


def generate_fabric(config: AcceleratorConfig, path: Path) -> None:
    """Write the Verilog of `ZynqFabric`, top module `bitlane_fabric`, to `path`; it is for simulators."""
    path.write_text(to_verilog(ZynqFabric(config), FABRIC_TOP))


def main() -> None:
    """Write the Verilog of the configuration on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_hw.export.verilog", description="Write the Verilog of the accelerator to a file."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write")
    defaults = AcceleratorConfig()
    for field in (
        "width",
        "outputs",
        "max_features",
        "row_buffer_beats",
        "fifo_beats",
        "address_bits",
        "level_slots",
        "encoder",
    ):
        parser.add_argument(f"--{field.replace('_', '-')}", type=int, default=getattr(defaults, field), metavar="N")
    arguments = vars(parser.parse_args())
    path = arguments.pop("file")
    generate(AcceleratorConfig(**arguments), path)


if __name__ == "__main__":
    main()
