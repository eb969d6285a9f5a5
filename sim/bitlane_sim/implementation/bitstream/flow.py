"""Verilog to bitstream: synthesis, place and route, timing, FASM to frames, frames to a .bit file and back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError
from bitlane_sim.rtl.toolchain import run

from ..area_and_timing import MAP, Figures, area
from .boards import Board
from .database import Database
from .fasm import parse
from .frames import assemble, difference, from_bitread, to_frm
from .header import with_header
from .timing import MODELS, add_models, cut_false_paths, read_models, read_netlist, slowest_path
from .tools import Tools

# The default placer sets the lanes' carry chains far apart, with wires twice as long. One thread: the same each time.
# The frequency is what is aimed at, not what a board's clock asks for.
PLACEMENT = ("--placer", "static", "--threads", "1", "--freq", "100")
# PS7's wires leave it up to 52 rows from where nextpnr takes it to be: without so wide a margin around a net none is
# found there, and without so broad a one a thread looks for it in one half of the chip; each costs seconds a wire.
ROUTING = {"router2/bbMargin/x": "40", "router2/bbMargin/y": "60"}
# nextpnr asks 0.67 ns of the data of a block RAM, as in mode NO_CHANGE; ours are READ_FIRST, 0.41 in the database.
HOLD = re.compile(r"(\d+) Hold/min time violations")  # the worst ten follow


@dataclass(frozen=True)
class Routed:
    """What place and route came to.

    Attributes
    ----------
    slice_mhz: by nextpnr's, of all paths but those of DSP48E1 and PS7.
    block_mhz: of these, see `timing`; None where there are none.
    slowest: the pin where the slowest of these ends.
    hold_violations: paths that are too short, by nextpnr's.
    """

    slice_mhz: float
    block_mhz: float | None
    slowest: str
    hold_violations: int

    @property
    def fmax_mhz(self) -> float:
        return min(self.slice_mhz, self.block_mhz or self.slice_mhz)

    def require(self, clock_mhz: float) -> None:
        """Raise BitlaneError where the design does not run at `clock_mhz`."""
        if self.fmax_mhz < clock_mhz:
            raise BitlaneError(
                f"timing is missed: {self.fmax_mhz:.1f} MHz at best where the board's clock has {clock_mhz:.1f} MHz "
                f"(slices {self.slice_mhz}, DSP48E1 and PS7 {self.block_mhz} at {self.slowest}); try another --seed"
            )
        if self.hold_violations:
            raise BitlaneError(f"timing is missed: {self.hold_violations} paths violate hold; try another --seed")


def synthesise(verilog: Path, top: str, tools: Tools, folder: Path) -> Figures:
    """`verilog` to the netlist top.json in `folder`, by Yosys; what it maps to, before packing."""
    shutil.copyfile(verilog, folder / "top.v")  # the netlist has names with the file's, on which placement depends
    steps = ("read_verilog top.v", f"{MAP} -top {top}", "write_json top.json", "tee -q -o stat.json stat -json")
    run([tools.yosys, "-q", "-p", "; ".join(steps)], directory=folder)
    return area(json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"])


def place_and_route(board: Board, tools: Tools, folder: Path, seed: int) -> Routed:
    """top.json to top.fasm in `folder`, by nextpnr; timing that is missed is in the result, not raised."""
    design = json.loads((folder / "top.json").read_text())
    top_module(design)["settings"] = ROUTING
    (folder / "place.json").write_text(json.dumps(design))
    log = run(
        [
            *(tools.nextpnr, "--device", board.part, "--json", "place.json", "-o", "fasm=top.fasm", "--sdf", "top.sdf"),
            *("--report", "report.json", "--write", "routed.json", "--timing-allow-fail"),
            *("--seed", str(seed), *PLACEMENT),
        ],
        directory=folder,
    )
    netlist = read_netlist((folder / "top.sdf").read_text())
    cells = cells_of(json.loads((folder / "routed.json").read_text()))
    cut_false_paths(netlist, cells)
    add_models(netlist, read_models(tools.database / "timings"), parameters_of(cells))
    return routed(json.loads((folder / "report.json").read_text()), log, *slowest_path(netlist, MODELS))


def top_module(design: dict[str, Any]) -> dict[str, Any]:
    """The top of a design of Yosys' or nextpnr's."""
    (top,) = (module for module in design["modules"].values() if module["attributes"].get("top"))
    return top  # type: ignore[no-any-return]


def cells_of(design: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The top's cells, by their names as `read_netlist` has them: without the backslashes that SDF escapes with."""
    return {name.replace("\\", ""): cell for name, cell in top_module(design)["cells"].items()}


def parameters_of(cells: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Parameters of those of nextpnr's cells that MODELS has, by their names; numbers, binary there, in decimal."""
    return {
        name: {key: str(int(value, 2)) if set(value) <= {*"01"} else value for key, value in cell["parameters"].items()}
        for name, cell in cells.items()
        if cell["type"].partition("_")[0] in MODELS
    }


def routed(report: dict[str, dict[str, dict[str, float]]], log: str, period_ns: float, slowest: str) -> Routed:
    """The result, of nextpnr's report and log and `slowest_path`. BitlaneError where nextpnr found no path."""
    if not report["fmax"]:
        raise BitlaneError("nextpnr names no maximum frequency: the design has no path from register to register")
    slice_mhz = min(clock["achieved"] for clock in report["fmax"].values())
    block_mhz = round(1000 / period_ns, 2) if period_ns else None
    return Routed(round(slice_mhz, 2), block_mhz, slowest, int([0, *HOLD.findall(log)][-1]))


def pack(design: str, board: Board, tools: Tools, folder: Path) -> Database:
    """top.fasm to top.bit in `folder`, read back and compared frame by frame; the database that it was made with.

    Raises BitlaneError for what `frames.assemble` refuses, and where the .bit file holds other frames.
    """
    database = Database(tools.database, board.part)
    frames = assemble(parse((folder / "top.fasm").read_text(), "top.fasm"), database)
    (folder / "top.frm").write_text(to_frm(frames))
    part = [f"--part_file={database.part_file}"]
    files = ["--frm_file=top.frm", "--output_file=top.bit"]
    run([tools.frames2bit, *part, f"--part_name={board.part}", *files], directory=folder)
    bitstream = folder / "top.bit"
    bitstream.write_bytes(with_header(bitstream.read_bytes(), design, board.part))
    run([tools.bitread, *part, "-o", "back.txt", "top.bit"], directory=folder)
    if other := difference(frames, from_bitread((folder / "back.txt").read_text())):
        raise BitlaneError(f"the bitstream does not hold what was routed: {other}")
    return database
