"""A hash of a design that does not depend on names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bitlane import overlays

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

    from bitlane.contract.config import AcceleratorConfig

# In RTLIL the names of wires, cells and modules start with \ or $. The digest keeps cell types ($add) and capitals
# (\A, \WIDTH): names of ports and parameters by Yosys or the vendor of the chip.
NAME = re.compile(r"[\\$][^\s\[\]]+")
PRESERVED = re.compile(r"\$[a-z_]+|\\[A-Z][A-Z0-9_]*")
ATTRIBUTE = re.compile(r"^\s*attribute .*\n", re.MULTILINE)
MODULE = re.compile(r"^module (\S+)\n.*?^end\n", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"^\s*wire .*\b(?:input|output|inout) (\d+)\b.* (\S+)$", re.MULTILINE)
CELL = re.compile(r"^\s*cell (\S+) \S+$")
CONNECTION = re.compile(r"^(\s*connect )(\S+)( .*)$")


def design_digest(component: Component) -> str:
    """Return a SHA-256 over the function of `component`, independent of the names of its signals, cells and modules.

    It hashes Amaranth's RTLIL with each name replaced by the number of its first appearance in its module, and each
    port of a module by its number: the digest changes with every cell, connection, width and constant, and with their
    order.

    Parameters
    ----------
    component : amaranth.lib.wiring.Component
        The top of a design. Its build register needs a constant, if the build number comes from this digest.
    """
    from amaranth.back import rtlil

    from bitlane_hw.export.verilog import ports

    text = rtlil.convert(component, name="top", ports=ports(component), emit_src=False)
    return hashlib.sha256(without_names(text).encode()).hexdigest()


def circuit_digest(config: AcceleratorConfig) -> str:
    """Return the `design_digest` of the complete design for a Zynq-7000, except for its build number."""
    from bitlane_hw.zynq.top import Zynq

    return design_digest(Zynq(config, build=0))


def build_number(digest: str) -> int:
    """Return the value of the `build` register for a `circuit_digest`: it changes only if the circuit does.

    A circuit that the package has a bitstream of keeps the number of that bitstream, so that a rebuild repeats its
    bytes. The number of any other circuit is the start of its digest.
    """
    for path in overlays.FOLDER.glob("*/manifest.json"):
        shipped = json.loads(path.read_text())
        if shipped["circuit"] == digest:
            return int(shipped["build"], 16)
    return int(digest[:8], 16)


def without_names(rtlil: str) -> str:
    """Return RTLIL without attributes and with numbers instead of names."""
    text = ATTRIBUTE.sub("", rtlil)
    modules = {match[1]: match[0] for match in MODULE.finditer(text)}
    ports = {name: {port: number for number, port in PORT.findall(module)} for name, module in modules.items()}
    numbers = {name: f"module{number}" for number, name in enumerate(modules)}
    return "".join(_module_without_names(module, numbers, ports) for module in modules.values())


def _module_without_names(module: str, modules: Mapping[str, str], ports: Mapping[str, Mapping[str, str]]) -> str:
    """Return a module with numbers instead of names: `modules` of modules, and `ports` of the ports of each module."""
    numbers = dict(modules)

    def numbered(match: re.Match[str]) -> str:
        name = match[0]
        return name if PRESERVED.fullmatch(name) else numbers.setdefault(name, f"n{len(numbers)}")

    lines, of_cell = [], None  # the ports of the cell that the line belongs to
    for line in module.splitlines():
        if (cell := CELL.match(line)) is not None:
            of_cell = ports.get(cell[1])
        elif line.strip() == "end":
            of_cell = None
        if of_cell is not None and (connection := CONNECTION.match(line)) is not None:
            before, port, value = connection.groups()
            line = f"{before}port{of_cell[port]}{value}"
        lines.append(NAME.sub(numbered, line))
    return "\n".join(lines) + "\n"
