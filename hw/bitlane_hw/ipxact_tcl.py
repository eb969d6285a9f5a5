"""The register map as Tcl, for the vendor's IP packager: `python -m bitlane_hw.ipxact_tcl FILE`.

The file sets two variables and calls nothing: `window`, the bytes that the register slave decodes, and `registers`, a
list of {name, byte offset, bits, access, meaning}, as `bitstreams/vivado/ip.tcl` reads them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .contract import REGISTERS, Register
from .registers import ADDRESS_BITS

HEAD = "# The register map, made from host/bitlane/contract.py by bitlane_hw.ipxact_tcl; do not edit."
ACCESS = {False: "read-only", True: "read-write"}  # as IP-XACT calls it
SPECIAL = '\\{}[]$"'


def quoted(text: str) -> str:
    """`text` as one Tcl word in double quotes, whatever it holds."""
    escaped = "".join(f"\\{character}" if character in SPECIAL else character for character in text)
    return f'"{escaped}"'


def entry(register: Register) -> str:
    """One register, a Tcl command that makes a list of it; its size is that of its words, 32 or 64."""
    access = ACCESS[register.writable]
    return f"[list {register.name} {register.offset:#05x} {32 * register.words} {access} {quoted(register.meaning)}]"


def tcl() -> str:
    """The whole file."""
    return "\n".join(
        [
            HEAD,
            f"set window {1 << ADDRESS_BITS}",
            "set registers [list \\",
            *(f"    {entry(register)} \\" for register in REGISTERS.values()),
            "]",
            "",
        ]
    )


def main() -> None:
    """Write the file named on the command line."""
    parser = argparse.ArgumentParser(description="Write the register map as Tcl, for the vendor's IP packager.")
    parser.add_argument("file", type=Path)
    parser.parse_args().file.write_text(tcl())


if __name__ == "__main__":
    main()
