"""Input of the packager of IP of Vivado: a Tcl file that sets variables and calls nothing.

`vlnv` is the name of the IP, `top` its module. `facts` is a dict of parameters that the driver compares with the
registers. `memory` is a list of the interfaces to memory. `window` is the number of bytes that the register slave
decodes. `registers` is a list of {name, byte offset, access, meaning} of each 32-bit word.
"""

from __future__ import annotations

from bitlane.contract.registers import VLNV
from bitlane_hw.control.registers import ADDRESS_BITS

from .core import WORDS, Core, Word

ACCESS = {False: "read-only", True: "read-write"}  # names of IP-XACT
SPECIAL = '\\{}[]$"'


def quoted(text: str) -> str:
    """Return `text` as one Tcl word in double quotes, with all special characters escaped."""
    escaped = "".join(f"\\{character}" if character in SPECIAL else character for character in text)
    return f'"{escaped}"'


def entry(word: Word) -> str:
    """Return a Tcl command that makes a list of a 32-bit word of a register."""
    register = word.register
    return f"[list {word.name} {word.offset:#05x} {ACCESS[register.writable]} {quoted(register.meaning)}]"


def vivado_tcl(core: Core) -> str:
    """Return the text of the file for a core."""
    config = core.config
    return "\n".join(
        [
            "# Made by bitlane_hw.export; do not edit.",
            f"set vlnv {VLNV}",
            f"set top {core.top}",
            f"set facts {{BUILD {core.build} WIDTH {config.width} OUTPUTS {config.outputs}}}",
            f"set memory {{{' '.join(core.memory)}}}",
            f"set window {1 << ADDRESS_BITS}",
            "set registers [list \\",
            *(f"    {entry(word)} \\" for word in WORDS),
            "]",
            "",
        ]
    )
