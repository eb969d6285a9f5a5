"""What the vendor's IP packager is given: `python -m bitlane_hw.export.ipxact_tcl FOLDER --width 128`.

Two files in a folder: the Verilog, and `accelerator.tcl`, which sets variables and calls nothing: `vlnv`, the IP's
name; `facts`, a dict of parameters that the driver compares with what the registers say; `window`, the bytes that the
register slave decodes; `registers`, a list of {name, byte offset, access, meaning} of each 32-bit word.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV, Register
from bitlane_hw.build_digest import build_digest
from bitlane_hw.control.registers import ADDRESS_BITS

from .verilog import TOP, generate

HEAD = "# Made by bitlane_hw.export.ipxact_tcl; do not edit."
ACCESS = {False: "read-only", True: "read-write"}  # as IP-XACT calls it
SPECIAL = '\\{}[]$"'


def quoted(text: str) -> str:
    """`text` as one Tcl word in double quotes, whatever it holds."""
    escaped = "".join(f"\\{character}" if character in SPECIAL else character for character in text)
    return f'"{escaped}"'


def entry(register: Register, word: int = 0) -> str:
    """A 32-bit word of a register, a Tcl command that makes a list of it; an upper one is called NAME_high."""
    name = register.name + ("_high" if word else "")
    offset = register.offset + 4 * word
    return f"[list {name} {offset:#05x} {ACCESS[register.writable]} {quoted(register.meaning)}]"


def tcl(config: AcceleratorConfig) -> str:
    """The text of `accelerator.tcl`."""
    words = [entry(register, word) for register in REGISTERS.values() for word in range(register.words)]
    return "\n".join(
        [
            HEAD,
            f"set vlnv {VLNV}",
            f"set facts {{BUILD {build_digest(config)} WIDTH {config.width} OUTPUTS {config.outputs}}}",
            f"set window {1 << ADDRESS_BITS}",
            "set registers [list \\",
            *(f"    {word} \\" for word in words),
            "]",
            "",
        ]
    )


def main() -> None:
    """Write both files of the configuration named on the command line; the folder is made where there is none."""
    parser = argparse.ArgumentParser(description="Write the Verilog, and accelerator.tcl for the vendor's IP packager.")
    parser.add_argument("folder", type=Path)
    for field in fields(AcceleratorConfig):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, default=field.default)
    arguments = vars(parser.parse_args())
    folder = arguments.pop("folder")
    config = AcceleratorConfig(**arguments)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "accelerator.tcl").write_text(tcl(config))
    generate(config, folder / f"{TOP}.v")


if __name__ == "__main__":
    main()
