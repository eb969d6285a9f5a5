"""Build a board's bitstream: `make bitstream BOARD=pynq-z2`."""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane_hw.zynq.top import Zynq

from . import flow, tools, verilog
from .boards import BOARDS, Board, board_named
from .design_digest import design_digest
from .hwh import ZYNQ, hwh
from .manifest import manifest

DESIGN = "bitlane"
SEED = 2  # 101.79 MHz; seed 4: 88.71


def build(board: Board, seed: int, folder: Path) -> None:
    """Write bitlane.bit, its .xz, .hwh and netlist (.json), and manifest.json into `folder`, or raise BitlaneError."""
    programs = tools.find()
    with tempfile.TemporaryDirectory(prefix="bitstream.") as name:
        work = Path(name)
        print_progress(f"{board.name}: writing Verilog, {board.width} bits behind {' and '.join(board.ports)} ...")
        verilog.write(board, work / f"{DESIGN}.v")
        rtl = design_digest(Zynq(board.config(), build=0))
        print_progress("synthesis by Yosys (a minute or two) ...")
        area = flow.synthesise(work / f"{DESIGN}.v", verilog.TOP, programs, work)
        print_progress(f"place and route by nextpnr, seed {seed} (ten minutes) ...")
        routed = flow.place_and_route(board, programs, work, seed)
        routed.require(board.clock_mhz)
        print_progress("FASM to bitstream and back ...")
        database = flow.pack(DESIGN, board, programs, work)
        shutil.copyfile(work / "top.bit", folder / f"{DESIGN}.bit")
        shutil.copyfile(work / "top.json", folder / f"{DESIGN}.json")
    bitstream, handoff = folder / f"{DESIGN}.bit", folder / f"{DESIGN}.hwh"
    handoff.write_text(hwh(ZYNQ, board.config(), board.pynq_name, board.divisors, board.clock_mhz, board.build))
    compressed = folder / f"{DESIGN}.bit.xz"
    compressed.write_bytes(lzma.compress(bitstream.read_bytes()))
    versions = {**programs.versions(), "prjxray-database": f"sha256 {database.digest}"}
    text = json.dumps(manifest(board, rtl, area, routed, seed, versions, [bitstream, compressed, handoff]), indent=1)
    (folder / "manifest.json").write_text(text + "\n")
    print_progress(
        f"{routed.fmax_mhz:.1f} MHz by static timing (clock: {board.clock_mhz:.1f} MHz), {area.lut:,} LUT, "
        f"{area.ff:,} FF, {area.bram36:g} BRAM36, {area.dsp} DSP; not run on silicon"
    )


def print_progress(message: str) -> None:
    """Print one line of progress."""
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Build the board of the command line; the results appear completely or not at all. Return 1 on errors."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_sim.implementation.bitstream", description=__doc__)
    parser.add_argument("board", metavar="BOARD", help=f"one of {', '.join(BOARDS)}")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (default: bitstreams/BOARD)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the placement (default: {SEED})")
    arguments = parser.parse_args(argv)
    out: Path = arguments.out or Path("bitstreams", arguments.board)
    try:
        board = board_named(arguments.board)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{out.name}.", dir=out.parent) as name:
            made = Path(name, out.name)
            made.mkdir()
            build(board, arguments.seed, made)
            if out.exists():
                out.rename(Path(name, "before"))
            made.rename(out)
    except (BitlaneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(*sorted(out.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
