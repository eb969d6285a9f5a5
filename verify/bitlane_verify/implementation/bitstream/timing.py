"""Static timing of the paths that nextpnr omits: from, to and through DSP48E1, and from and to PS7.

nextpnr writes its delays as SDF (IEEE 1497): those of wires, slices and block RAMs, but none of these two cells.
Project X-Ray's database has theirs, also as SDF; the name of a cell there has the parameters for which it is valid. The
delays of wires to LUTs are nextpnr's estimates: it swaps the inputs of a LUT before it writes, and gives both LUTs of a
pair the inputs of either (`cut_false_paths`). Neither source has the clock skew or the paths between two registers
inside a DSP48E1. Hold is not checked: the two cells need 0.1 ns at most.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

LUT_MEMORIES = {"X_LUT_AS_DRAM", "X_LUT_AS_SRL"}  # attributes of LUTs used as memories
MODELS = {"PS7": "PSS2.sdf", "DSP48E1": "DSP_L.sdf"}  # type of cell -> file in the database's `timings`
NEVER = float("-inf")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
ORIGIN = "X_ORIG_PORT_"  # plus a pin: the attribute with the name of the pin in Yosys' netlist
WIRE = re.compile(r"\(INTERCONNECT (\S+) (\S+) (.*)\)")
PATH = re.compile(r"\(IOPATH (\S+) (\S+) (.*)\)")
CHECK = re.compile(r"\(SETUP(?:HOLD)? (?:\(\w+ )?(\w+)\)? \(\w+ \w+\) \(([^()]*)\)")
CONDITION = re.compile(r"(?<![A-Z])([A-Z]+REG|[AB]_INPUT|USE_MULT|USE_DPORT)_(\d|[A-Z]+?)(?=_|$)")


@dataclass
class Cell:
    """A cell of an SDF file: (from, to) -> delay of the path, pin -> setup time, in ns."""

    kind: str
    name: str
    paths: dict[tuple[str, str], float] = field(default_factory=dict)
    setups: dict[str, float] = field(default_factory=dict)


@dataclass
class Netlist:
    """The cells of a design by name, and its wires: driven pin -> driving pin and delay in ns."""

    cells: dict[str, Cell]
    wires: dict[str, tuple[str, float]]


def read_cells(text: str, unit_ns: float) -> Iterator[Cell]:
    """Yield the cells of an SDF file, with the largest of several values for a path or a check."""
    kind, cell = "", Cell("", "")
    for line in map(str.strip, text.splitlines()):
        if line.startswith("(CELLTYPE"):
            kind = line.split('"')[1]
        elif line.startswith("(INSTANCE"):
            cell = Cell(kind, line.removeprefix("(INSTANCE").rstrip(")").strip().replace("\\", ""))
            yield cell
        elif path := PATH.match(line):
            ends = (path[1], path[2])
            cell.paths[ends] = max(cell.paths.get(ends, 0), _largest(path[3]) * unit_ns)
        elif check := CHECK.match(line):
            cell.setups[check[1]] = max(cell.setups.get(check[1], 0), _largest(check[2]) * unit_ns)


def read_netlist(text: str) -> Netlist:
    """Return the netlist in the output of `nextpnr --sdf`, which is in picoseconds."""
    wires = {
        wire[2].replace("\\", ""): (wire[1].replace("\\", ""), _largest(wire[3]) / 1000) for wire in WIRE.finditer(text)
    }
    return Netlist({cell.name: cell for cell in read_cells(text, 1e-3)}, wires)


def cut_false_paths(netlist: Netlist, cells: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep only the paths of a LUT from its own inputs; `cells` are those of `nextpnr --write` by name."""
    for name, cell in cells.items():
        own = {key.removeprefix(ORIGIN) for key in cell["attributes"] if key.startswith(ORIGIN)}
        if cell["type"] == "SLICE_LUTX" and not LUT_MEMORIES & cell["attributes"].keys():
            timed = netlist.cells[name]
            timed.paths = {ends: delay for ends, delay in timed.paths.items() if ends[0] in own}


def read_models(timings: Path) -> dict[str, list[Cell]]:
    """Return the cells of `MODELS` from the folder `timings` of the database."""
    return {kind: list(read_cells((timings / file).read_text(), 1)) for kind, file in MODELS.items()}


def add_models(netlist: Netlist, models: Mapping[str, list[Cell]], parameters: Mapping[str, Mapping[str, str]]) -> None:
    """Add the delays of `models` to the cells of the netlist; `parameters`, by cell name, select the model."""
    pins: dict[str, list[str]] = {}
    for pin in {*netlist.wires, *(driver for driver, _ in netlist.wires.values())}:
        name, _, port = pin.rpartition("/")
        pins.setdefault(name, []).append(port)
    for cell in netlist.cells.values():
        for model in models.get(cell.kind.partition("_")[0], ()):
            if _applies(model.kind, parameters.get(cell.name, {})):
                _copy(model, cell, pins.get(cell.name, []))


def slowest_path(netlist: Netlist, kinds: Container[str]) -> tuple[float, str]:
    """Return the longest time from a clock edge to the end of a setup in ns, and the pin at its end.

    Only paths that start at, pass or end at a cell of these kinds count. Returns 0 and "" without such a path.
    """
    into: dict[str, dict[str, list[tuple[str, float]]]] = {}
    for cell in netlist.cells.values():
        for (start, end), delay in cell.paths.items():
            into.setdefault(cell.name, {}).setdefault(end, []).append((start, delay))

    def at_input(pin: str, through: bool) -> float:
        driver, delay = netlist.wires.get(pin, ("", 0.0))
        return arrival(driver, through) + delay if driver else NEVER

    @cache
    def arrival(pin: str, through: bool) -> float:
        """Return the settling time of an output, `NEVER` without a clock; with `through` only paths via such cells."""
        name, _, port = pin.rpartition("/")
        through = through and netlist.cells[name].kind.partition("_")[0] not in kinds
        return max(
            (
                delay + ((NEVER if through else 0.0) if _is_clock(start) else at_input(f"{name}/{start}", through))
                for start, delay in into.get(name, {}).get(port, ())
            ),
            default=NEVER,
        )

    slowest = max(
        (
            (at_input(f"{cell.name}/{pin}", cell.kind.partition("_")[0] not in kinds) + setup, f"{cell.name}/{pin}")
            for cell in netlist.cells.values()
            for pin, setup in cell.setups.items()
        ),
        default=(NEVER, ""),
    )
    return slowest if slowest[0] > NEVER else (0.0, "")


def _largest(values: str) -> float:
    return max(map(float, NUMBER.findall(values)))


def _is_clock(port: str) -> bool:
    return port == "CK" or "CLK" in port


def _applies(model: str, parameters: Mapping[str, str]) -> bool:
    """Return whether a model such as DSP48E1_AREG_0_USE_MULT_NONE fits the parameters of a cell."""
    return all(parameters.get(name, value) == value for name, value in CONDITION.findall(model))


def _copy(model: Cell, cell: Cell, ports: Iterable[str]) -> None:
    """Add the delays of a model to the used pins of a cell: A of the model is A0, A1, ... of the cell."""
    by_name: dict[str, list[str]] = {}
    for port in ports:
        for name in {port, port.rstrip("0123456789")}:
            by_name.setdefault(name, []).append(port)
    for (start, end), delay in model.paths.items():
        for first in [start] if _is_clock(start) else by_name.get(start, ()):
            for last in by_name.get(end, ()):
                cell.paths[first, last] = max(cell.paths.get((first, last), 0), delay)
    for name, setup in model.setups.items():
        for port in by_name.get(name, ()):
            cell.setups[port] = max(cell.setups.get(port, 0), setup)
