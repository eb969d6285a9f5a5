"""Verilog to bitstream: synthesis, place and route, FASM to frames, frames to a .bit file and back.

The static timing is nextpnr's, whose model of the chip is the community's and does not cover all of it: see `manifest`.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import BitlaneError

from ..synthesis import Figures, area
from ..toolchain import run
from .boards import Board
from .database import Database
from .fasm import parse
from .frames import assemble, difference, from_bitread, to_frm
from .header import with_header
from .tools import Tools

SYNTHESIS = "synth_xilinx -flatten -abc9 -arch xc7"
# The default placer sets the lanes' carry chains far apart, with wires twice as long. Threads are a part of the result.
PLACEMENT = ("--placer", "static", "--threads", "8")
HOLD = re.compile(r"(\d+) Hold/min time violations")  # the worst ten follow


@dataclass(frozen=True)
class Routed:
    """What place and route came to.

    Attributes
    ----------
    fmax_mhz: of the slowest clock, by static timing.
    hold_violations: paths that are too short by the same timing.
    """

    fmax_mhz: float
    hold_violations: int

    def require(self, clock_mhz: float) -> None:
        """Raise BitlaneError where the design does not run at `clock_mhz`."""
        if self.fmax_mhz < clock_mhz:
            raise BitlaneError(
                f"timing is missed: {self.fmax_mhz:.1f} MHz at best where the board's clock has {clock_mhz:g} MHz; "
                "try another --seed"
            )
        if self.hold_violations:
            raise BitlaneError(f"timing is missed: {self.hold_violations} paths violate hold; try another --seed")


def synthesise(verilog: Path, top: str, tools: Tools, folder: Path) -> Figures:
    """`verilog` to the netlist top.json in `folder`, by Yosys; what it maps to, before packing."""
    steps = (f"read_verilog {verilog.resolve()}", f"{SYNTHESIS} -top {top}", "write_json top.json")
    run([tools.yosys, "-q", "-p", "; ".join((*steps, "tee -q -o stat.json stat -json"))], directory=folder)
    return area(json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"])


def place_and_route(board: Board, tools: Tools, folder: Path, seed: int) -> Routed:
    """top.json to top.fasm in `folder`, by nextpnr; timing that is missed is in the result, not raised."""
    log = run(
        [
            *(tools.nextpnr, "--device", board.part, "--json", "top.json", "-o", "fasm=top.fasm"),
            *("--report", "report.json", "--freq", f"{board.clock_mhz:g}", "--seed", str(seed), "--timing-allow-fail"),
            *PLACEMENT,
        ],
        directory=folder,
    )
    return routed(json.loads((folder / "report.json").read_text()), log)


def routed(report: dict[str, dict[str, dict[str, float]]], log: str) -> Routed:
    """The result in nextpnr's report and log. BitlaneError where no clock is in it."""
    if not report["fmax"]:
        raise BitlaneError("nextpnr names no maximum frequency: the design has no path from register to register")
    fmax = min(clock["achieved"] for clock in report["fmax"].values())
    return Routed(round(fmax, 2), int([0, *HOLD.findall(log)][-1]))


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


def say(message: str) -> None:
    """One line of progress."""
    print(message, file=sys.stderr, flush=True)
