"""Export the accelerator for other tools: `python -m bitlane_hw.export FOLDER --width 128`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from .build_options import add_build_options, build_of, fail
from .cards import CARDS, facts, link_cfg
from .core import Core
from .ip_xact import ip_xact
from .kernel import kernel_xml, name_of, package_tcl, wrapper
from .system_rdl import system_rdl
from .verilog import asserting_verilog, to_verilog
from .vivado_tcl import vivado_tcl
from .waivers import waivers


def files(core: Core) -> dict[str, str]:
    """Return the text of each exported file by its name."""
    component = core.component()
    texts = {
        f"{core.top}.v": to_verilog(component, core.top),
        f"{core.top}.vlt": waivers(core),
        f"{core.top}.rdl": system_rdl(core),
        f"{core.top}.xml": ip_xact(core, component),
        "accelerator.tcl": vivado_tcl(core),
    }
    if core.assertions:
        texts |= {f"{core.top}_asserting.sv": asserting_verilog(core.component(), core.top)}
    if core.kernel:
        texts |= {
            f"{name_of(core)}.v": wrapper(core, component),
            "kernel.xml": kernel_xml(core),
            "package_xo.tcl": package_tcl(core),
        }
    if core.card:
        kernel = name_of(core)
        texts |= {
            "link.cfg": link_cfg(core.card, kernel, core.memory),
            f"{kernel}.json": facts(core.card, kernel, core.config, core.build),
        }
    return texts


def main(argv: Sequence[str] | None = None) -> None:
    """Write the files of the core on the command line; create the folder if it does not exist."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_hw.export",
        description="Write the accelerator for other tools: Verilog, waivers of its lint, its registers in SystemRDL, "
        "IP-XACT, and Tcl for Vivado.",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="folder to write to; created if it does not exist")
    default = Core()
    add("--top", default=default.top, metavar="NAME", help=f"name of the top module (default: {default.top})")
    add(
        "--memory-ports",
        type=int,
        default=default.memory_ports,
        metavar="N",
        help="AXI4 ports to one memory: 1, or 2 of half the width for 256 bits; those of --ports have a memory each "
        f"(default: {default.memory_ports})",
    )
    add("--kernel", action="store_true", help="also as a kernel for Vitis; needs --address-bits 64")
    add("--card", default=default.card, metavar="CARD", help=f"with --kernel: also link it for {' or '.join(CARDS)}")
    add(
        "--assertions",
        action="store_true",
        help="also NAME_asserting.sv, the same circuit for simulators: it asserts what its blocks expect of each other",
    )
    add_build_options(parser)
    arguments = parser.parse_args(argv)
    folder: Path = arguments.folder
    try:
        names = ("top", "memory_ports", "kernel", "card", "assertions")
        core = Core(build_of(arguments), **{name: getattr(arguments, name) for name in names})
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files(core).items():
            (folder / name).write_text(text)
            print(folder / name)
    except (ValueError, OSError) as error:
        fail(parser, error)


if __name__ == "__main__":
    main()
