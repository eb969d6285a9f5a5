"""The steps from Verilog to a bitstream: synthesis, place and route, timing, FASM to frames, frames to a .bit file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError
from bitlane.overlays.bit_header import with_header
from bitlane_sim.rtl.toolchain import run

from ..yosys import MAP, SynthesisFigures, area
from .chips import Chip
from .database import Database
from .fasm import parse
from .frames import assemble, difference, from_bitread, to_frm
from .timing import MODELS, add_models, cut_false_paths, read_models, read_netlist, slowest_path
from .tools import BitstreamTools

# The default placer places the carry chains of the lanes far apart, with wires twice as long. One thread makes the
# result repeatable. The frequency is the goal of the placer, not the clock of a board.
PLACER = ("--placer", "static", "--threads", "1", "--freq")
PLACEMENT = (*PLACER, "100")
# The wires of PS7 leave it up to 52 rows from its location in nextpnr. With a smaller vertical margin the router finds
# no route there; with a smaller horizontal one it searches one half of the chip. Each costs seconds per wire.
ROUTING = {"router2/bbMargin/x": "40", "router2/bbMargin/y": "60"}
# nextpnr assumes a hold of 0.67 ns for block RAM data, as in mode NO_CHANGE. Ours are READ_FIRST: 0.41 ns.
HOLD = re.compile(r"(\d+) Hold/min time violations")  # the log lists the worst ten


@dataclass(frozen=True)
class SlicePath:
    """The slowest path between slices and block RAMs by nextpnr's report.

    Attributes
    ----------
    start, end : str
        The cells at its ends.
    logic_ns, wire_ns : float
        Its delay in cells, setup included, and on wires.
    """

    start: str
    end: str
    logic_ns: float
    wire_ns: float


@dataclass(frozen=True)
class Routed:
    """Timing after place and route.

    Attributes
    ----------
    slice_mhz : float
        Maximum frequency by nextpnr, of all paths except those of DSP48E1 and PS7.
    block_mhz : float or None
        Maximum frequency of these paths by `timing`; None if there are none.
    slowest : str
        The pin at the end of the slowest of these paths.
    hold_violations : int
        Paths that are too short, by nextpnr.
    slice_path : SlicePath or None, default=None
        The path that limits `slice_mhz`; None if the report of nextpnr has no path.
    """

    slice_mhz: float
    block_mhz: float | None
    slowest: str
    hold_violations: int
    slice_path: SlicePath | None = None

    @property
    def fmax_mhz(self) -> float:
        return min(self.slice_mhz, self.block_mhz or self.slice_mhz)

    def require(self, clock_mhz: float) -> None:
        """Raise BitlaneError if the design does not run at `clock_mhz`."""
        if self.fmax_mhz < clock_mhz:
            raise BitlaneError(
                f"timing is missed: {self.fmax_mhz:.1f} MHz at most, but the board's clock has {clock_mhz:.1f} MHz "
                f"(slices {self.slice_mhz}, DSP48E1 and PS7 {self.block_mhz} at {self.slowest}); try another --seed"
            )
        if self.hold_violations:
            raise BitlaneError(f"timing is missed: {self.hold_violations} paths violate hold; try another --seed")


def synthesise(verilog: Path, top: str, tools: BitstreamTools, folder: Path) -> SynthesisFigures:
    """Map `verilog` to the netlist top.json in `folder` with Yosys. Return its area before packing."""
    shutil.copyfile(
        verilog, folder / "top.v"
    )  # names in the netlist contain that of the file, and placement depends on them
    steps = ("read_verilog top.v", f"{MAP} -top {top}", "write_json top.json", "tee -q -o stat.json stat -json")
    run([tools.yosys, "-q", "-p", "; ".join(steps)], directory=folder)
    return area(json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"])


def place_and_route(
    chip: Chip, tools: BitstreamTools, folder: Path, seed: int, pins: str = "", goal_mhz: int | None = None
) -> Routed:
    """Place and route top.json to top.fasm in `folder` with nextpnr. Missed timing is in the result, not raised.

    Parameters
    ----------
    chip : Chip
    tools : BitstreamTools
    folder : Path
    seed : int
        Of the placer.
    pins : str, default=""
        Constraints of the ports, in the format of XDC; a bitstream has no ports.
    goal_mhz : int, optional
        Goal of the placer instead of that of bitstreams.
    """
    constraints = []
    if pins:
        (folder / "pins.xdc").write_text(pins)
        constraints = ["-o", "xdc=pins.xdc"]
    design = json.loads((folder / "top.json").read_text())
    top_module(design)["settings"] = ROUTING
    (folder / "place.json").write_text(json.dumps(design))
    log = run(
        [
            *(tools.nextpnr, "--device", chip.part, "--json", "place.json", "-o", "fasm=top.fasm", "--sdf", "top.sdf"),
            *("--report", "report.json", "--write", "routed.json", "--timing-allow-fail", *constraints),
            *("--seed", str(seed), *(PLACEMENT if goal_mhz is None else (*PLACER, str(goal_mhz)))),
        ],
        directory=folder,
    )
    netlist = read_netlist((folder / "top.sdf").read_text())
    cells = cells_of(json.loads((folder / "routed.json").read_text()))
    cut_false_paths(netlist, cells)
    add_models(netlist, read_models(tools.database / "timings"), parameters_of(cells))
    return routed(json.loads((folder / "report.json").read_text()), log, *slowest_path(netlist, MODELS))


def top_module(design: dict[str, Any]) -> dict[str, Any]:
    """Return the top module of a design in the JSON of Yosys or nextpnr."""
    (top,) = (module for module in design["modules"].values() if module["attributes"].get("top"))
    return top  # type: ignore[no-any-return]


def cells_of(design: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the cells of the top module by their names in `read_netlist`: without the backslashes of SDF."""
    return {name.replace("\\", ""): cell for name, cell in top_module(design)["cells"].items()}


def parameters_of(cells: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the parameters of nextpnr's cells in `MODELS`, by the names of the cells; binary numbers as decimal."""
    return {
        name: {key: str(int(value, 2)) if set(value) <= {*"01"} else value for key, value in cell["parameters"].items()}
        for name, cell in cells.items()
        if cell["type"].partition("_")[0] in MODELS
    }


def routed(report: Mapping[str, Any], output: str, period_ns: float, slowest: str) -> Routed:
    """Return the timing from nextpnr's report and log and `slowest_path`. Raises BitlaneError without any path."""
    if not report["fmax"]:
        raise BitlaneError(
            "the report of nextpnr has no maximum frequency: the design has no path from register to register"
        )
    slice_mhz = min(clock["achieved"] for clock in report["fmax"].values())
    block_mhz = round(1000 / period_ns, 2) if period_ns else None
    hold_violations = int([0, *HOLD.findall(output)][-1])
    return Routed(round(slice_mhz, 2), block_mhz, slowest, hold_violations, slice_path(report))


def slice_path(report: Mapping[str, Any]) -> SlicePath | None:
    """Return the slowest path from a clock edge to a clock edge in nextpnr's report."""
    paths = [
        path["path"]
        for path in report.get("critical_paths", ())
        if path["from"].startswith("posedge") and path["to"].startswith("posedge")
    ]
    if not paths:
        return None
    steps = max(paths, key=lambda path: sum(step["delay"] for step in path))
    wire = sum(step["delay"] for step in steps if step["type"] == "routing")
    total = sum(step["delay"] for step in steps)
    return SlicePath(steps[0]["from"]["cell"], steps[-1]["to"]["cell"], round(total - wire, 2), round(wire, 2))


def pack(design: str, chip: Chip, tools: BitstreamTools, folder: Path) -> Database:
    """Pack top.fasm into top.bit in `folder`, read it back, and compare the frames. Return the database.

    Raises BitlaneError if `frames.assemble` raises it, or if the .bit file has other frames.
    """
    database = Database(tools.database, chip.part)
    frames = assemble(parse((folder / "top.fasm").read_text(), "top.fasm"), database)
    (folder / "top.frm").write_text(to_frm(frames))
    part_options = [f"--part_file={database.part_file}"]
    files = ["--frm_file=top.frm", "--output_file=top.bit"]
    run([tools.frames2bit, *part_options, f"--part_name={chip.part}", *files], directory=folder)
    bitstream = folder / "top.bit"
    bitstream.write_bytes(with_header(bitstream.read_bytes(), design, chip.part))
    run([tools.bitread, *part_options, "-o", "back.txt", "top.bit"], directory=folder)
    if other := difference(frames, from_bitread((folder / "back.txt").read_text())):
        raise BitlaneError(f"the bitstream differs from the routed design: {other}")
    return database
