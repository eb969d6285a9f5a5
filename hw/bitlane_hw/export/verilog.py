"""Verilog of the accelerator: `python -m bitlane_hw.export.verilog FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Signal, Value
from amaranth.lib import wiring

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator

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
