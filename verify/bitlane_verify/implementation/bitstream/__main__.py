"""Build the bitstream of a chip, and the handoffs of all boards that have it: `make bitstream BOARD=pynq-z2`."""

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
from bitlane_hw.export.hwh import ZYNQ, hwh

from . import flow, tools, verilog
from .chips import Chip, chip_named
from .design_digest import build_number, circuit_digest
from .manifest import BitstreamSource, manifest, sha256

DESIGN = "bitlane"
SEED = 5  # 106.52 MHz


def build(chip: Chip, seed: int, folder: Path, number: int | None = None) -> None:
    """Write bitlane.bit, its .xz and netlist (.json), a .hwh for each board, and manifest.json into `folder`.

    `number` is the value of the `build` register; None for that of the circuit. Raises BitlaneError if a step fails or
    timing is missed.
    """
    programs = tools.find()
    with tempfile.TemporaryDirectory(prefix="bitstream.") as name:
        work = Path(name)
        print_progress(f"{chip.name}: writing Verilog, {chip.width} bits behind {' and '.join(chip.ports)} ...")
        circuit = circuit_digest(chip.config())
        number = build_number(circuit) if number is None else number
        verilog.write(chip, number, work / f"{DESIGN}.v")
        source = BitstreamSource(circuit, number, sha256(work / f"{DESIGN}.v"))
        print_progress("synthesis by Yosys (a minute or two) ...")
        area = flow.synthesise(work / f"{DESIGN}.v", verilog.TOP, programs, work)
        print_progress(f"place and route by nextpnr, seed {seed} (ten minutes) ...")
        routed = flow.place_and_route(chip, programs, work, seed)
        routed.require(chip.clock_mhz)
        print_progress("FASM to bitstream and back ...")
        database = flow.pack(DESIGN, chip, programs, work)
        shutil.copyfile(work / "top.bit", folder / f"{DESIGN}.bit")
        shutil.copyfile(work / "top.json", folder / f"{DESIGN}.json")
    bitstream, compressed = folder / f"{DESIGN}.bit", folder / f"{DESIGN}.bit.xz"
    compressed.write_bytes(lzma.compress(bitstream.read_bytes()))
    files = [bitstream, compressed, *write_handoffs(chip, source.build, folder)]
    versions = {**programs.versions(), database.NAME: f"sha256 {database.digest}"}
    text = json.dumps(manifest(chip, source, area, routed, seed, versions, programs.packages(), files), indent=1)
    (folder / "manifest.json").write_text(text + "\n")
    print_progress(
        f"{routed.fmax_mhz:.1f} MHz by static timing (clock: {chip.clock_mhz:.1f} MHz), {area.lut:,} LUT, "
        f"{area.ff:,} FF, {area.bram36:g} BRAM36, {area.dsp} DSP; not run on silicon"
    )


def write_handoffs(chip: Chip, build: int, folder: Path) -> list[Path]:
    """Write the .hwh of each board with this chip into `folder`. Return the files."""
    files = []
    for name, board in chip.boards:
        files.append(folder / f"{name}.hwh")
        files[-1].write_text(hwh(ZYNQ, chip.config(), board, chip.divisors, chip.clock_mhz, build))
    return files


def print_progress(message: str) -> None:
    """Print one line of progress."""
    print(message, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Build for the board of the command line; the results appear completely or not at all. Return 1 on errors."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_verify.implementation.bitstream", description=__doc__)
    parser.add_argument("board", metavar="BOARD", help="a board or a chip; see bitstreams/README.md")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (default: bitstreams/CHIP)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the placement (default: {SEED})")
    arguments = parser.parse_args(argv)
    try:
        chip = chip_named(arguments.board)
        out: Path = arguments.out or Path("bitstreams", chip.name)
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{out.name}.", dir=out.parent) as name:
            made = Path(name, out.name)
            made.mkdir()
            build(chip, arguments.seed, made)
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
