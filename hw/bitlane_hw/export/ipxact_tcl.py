"""Input of the IP packager of the vendor: `python -m bitlane_hw.export.ipxact_tcl FOLDER --width 128`.

The folder receives two files: the Verilog, and `accelerator.tcl`, which sets five variables and calls nothing. `vlnv`
is the name of the IP. `facts` is a dict of parameters that the driver compares with the registers. `memory` is a list
of the interfaces to memory: one of the width of the build, or two of 128 bits for 256 bits. `window` is the number of
bytes that the register slave decodes. `registers` is a list of {name, byte offset, access, meaning} of each 32-bit
word.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV, Register
from bitlane_hw.build_digest import CORE, TWO_PORTS, build_digest
from bitlane_hw.control.registers import ADDRESS_BITS
from bitlane_hw.zynq.hp_port import ULTRASCALE_DATA_BITS
from bitlane_hw.zynq.two_ports import WIDTH

from .build_options import add_build_options, build_of, fail
from .verilog import TOP, generate, generate_two_ports

HEAD = "# Made by bitlane_hw.export.ipxact_tcl; do not edit."
ACCESS = {False: "read-only", True: "read-write"}  # names of IP-XACT
SPECIAL = '\\{}[]$"'


def quoted(text: str) -> str:
    """Return `text` as one Tcl word in double quotes, with all special characters escaped."""
    escaped = "".join(f"\\{character}" if character in SPECIAL else character for character in text)
    return f'"{escaped}"'


def entry(register: Register, word: int = 0) -> str:
    """Return a Tcl command that makes a list of a 32-bit word of a register. An upper word is named NAME_high."""
    name = register.name + ("_high" if word else "")
    offset = register.offset + 4 * word
    return f"[list {name} {offset:#05x} {ACCESS[register.writable]} {quoted(register.meaning)}]"


def memory_interfaces(config: AcceleratorConfig) -> tuple[str, ...]:
    """Return the names of the interfaces to memory of a build: one, or two for the width of two ports.

    Raises
    ------
    ValueError
        The build needs more than two ports of the chip.
    """
    if config.width > WIDTH:
        raise ValueError(
            f"width={config.width} needs more than two ports of {ULTRASCALE_DATA_BITS} bits: choose at most {WIDTH}"
        )
    return ("m_axi0", "m_axi1") if config.width == WIDTH else ("m_axi",)


def tcl(config: AcceleratorConfig) -> str:
    """Return the text of `accelerator.tcl`. Raises ValueError if the build needs more than two memory ports."""
    memory = memory_interfaces(config)
    build = build_digest(config, TWO_PORTS if len(memory) > 1 else CORE)
    words = [entry(register, word) for register in REGISTERS.values() for word in range(register.words)]
    return "\n".join(
        [
            HEAD,
            f"set vlnv {VLNV}",
            f"set facts {{BUILD {build} WIDTH {config.width} OUTPUTS {config.outputs}}}",
            f"set memory {{{' '.join(memory)}}}",
            f"set window {1 << ADDRESS_BITS}",
            "set registers [list \\",
            *(f"    {word} \\" for word in words),
            "]",
            "",
        ]
    )


def main() -> None:
    """Write both files of the configuration on the command line; create the folder if it does not exist."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_hw.export.ipxact_tcl",
        description="Write the Verilog of the accelerator, and accelerator.tcl for the IP packager of the vendor.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write to; created if it does not exist")
    add_build_options(parser)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    try:
        config = build_of(arguments)
        text = tcl(config)
        folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        fail(parser, error)
    (folder / "accelerator.tcl").write_text(text)
    (generate_two_ports if len(memory_interfaces(config)) > 1 else generate)(config, folder / f"{TOP}.v")


if __name__ == "__main__":
    main()
