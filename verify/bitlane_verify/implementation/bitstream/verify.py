"""Check an overlay against its sources: `python -m bitlane_verify.implementation.bitstream.verify [BOARD]`.

The files must have the digests of the manifest, the handoffs those of the register table, and the RTL must make the
circuit of the bitstream. That takes half a minute. With --rebuild the bitstream is built again, with the seed of the
manifest, and its bytes are compared. The same bytes need the same Verilog, names included, and the same tools: the
output names each that differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import lzma
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError
from bitlane.overlays import FOLDER
from bitlane.support.text import align_columns
from bitlane_hw.export.hwh import ZYNQ, hwh

from . import __main__ as command
from . import manifest, tools, verilog
from .chips import XC7Z020, Chip, chip_named
from .database import Database
from .design_digest import circuit_digest

BIT = f"{command.DESIGN}.bit"


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes
    ----------
    what : str
        What was compared.
    equal : bool
    needed : bool
        Whether a difference is an error. If it only changes the bytes of a rebuild, it is not.
    meaning : str
        What a difference means; empty without one.
    """

    what: str
    equal: bool
    needed: bool
    meaning: str


def check_files(folder: Path, chip: Chip) -> Iterator[Finding]:
    """Compare the files of an overlay with its manifest, and its handoffs with the register table and the clock."""
    facts = read_manifest(folder)
    names = [f"{name}.hwh" for name, _ in chip.boards]
    contents = {name: (folder / name).read_bytes() for name in (f"{BIT}.xz", *names)}
    contents[BIT] = lzma.decompress(contents[f"{BIT}.xz"])
    digests = {name: sha256(content).hexdigest() for name, content in contents.items()}
    yield _finding("files", digests == facts["sha256"], "a file is not the one of the manifest")
    known = {"chip": chip.name, "boards": dict(chip.boards), "part": chip.part, "ports": [*chip.ports]}
    yield _finding(
        "chip and boards", known == {key: facts[key] for key in known}, "the chip or its boards have changed"
    )
    met = facts["clock_mhz"] == chip.clock_mhz <= facts["fmax_mhz"] and not facts["timing"]["hold_violations"]
    yield _finding("clock", met, "the clock has changed, or static timing does not meet it")
    build = int(facts["build"], 16)
    expected = [hwh(ZYNQ, chip.config(), board, chip.divisors, chip.clock_mhz, build) for _, board in chip.boards]
    handoffs = [contents[name].decode() for name in names]
    yield _finding("handoffs", handoffs == expected, "registers, ports or clock have changed since the handoffs")


def check_circuit(folder: Path, chip: Chip) -> Iterator[Finding]:
    """Compare the circuit of these sources with that of the bitstream, and the Verilog with that of its synthesis."""
    facts = read_manifest(folder)
    equal = circuit_digest(chip.config()) == facts["circuit"]
    yield _finding("circuit", equal, "these sources make another circuit: build the overlay again")
    with tempfile.TemporaryDirectory() as name:
        verilog.write(chip, int(facts["build"], 16), Path(name, "top.v"))
        same = manifest.sha256(Path(name, "top.v")) == facts["verilog"]
    yield Finding("Verilog", same, False, "" if same else "names or Amaranth differ: a rebuild makes other bytes")


def check_tools(folder: Path, chip: Chip) -> Iterator[Finding]:
    """Compare the tools of this machine with those of the manifest."""
    programs = tools.find()
    here = programs.versions() | {name: importlib.metadata.version(name) for name in manifest.PYTHON_TOOLS}
    facts = read_manifest(folder)
    if "packages" in facts:
        same = programs.packages() == facts["packages"]
        why = "" if same else "other packages than those of the bitstream: a rebuild may make other bytes"
        yield Finding("packages", same, False, why)
    for name, version in facts["tools"].items():
        if name in here:
            same = here[name] == version
            why = "" if same else f"{here[name]} here, {version} in the manifest: a rebuild makes other bytes"
            yield Finding(name, same, False, why)


def check_rebuild(folder: Path, chip: Chip) -> Iterator[Finding]:
    """Build the bitstream again, and compare its bytes."""
    facts = read_manifest(folder)
    seed = int(facts["placement"][facts["placement"].index("--seed") + 1])
    with tempfile.TemporaryDirectory(prefix="verify.") as name:
        command.build(chip, seed, Path(name), int(facts["build"], 16))
        again = read_manifest(Path(name))
    databases = [each["tools"][Database.NAME] for each in (facts, again)]
    same = databases[0] == databases[1]
    yield Finding(Database.NAME, same, False, "" if same else f"{databases[1]} here, {databases[0]} in the manifest")
    equal = again["sha256"][BIT] == facts["sha256"][BIT]
    yield _finding("bytes", equal, f"the rebuild has SHA-256 {again['sha256'][BIT]}")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an overlay."""
    facts: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return facts


def _finding(what: str, equal: bool, meaning: str) -> Finding:
    return Finding(what, equal, True, "" if equal else meaning)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of the comparisons. Return 1 if one of them found an error."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_verify.implementation.bitstream.verify", description=__doc__
    )
    parser.add_argument("board", nargs="?", default=XC7Z020.name, metavar="BOARD", help="a board or a chip")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="folder of the overlay (default: the package's)")
    parser.add_argument("--rebuild", action="store_true", help="build it again, and compare the bytes")
    arguments = parser.parse_args(argv)
    findings: list[Finding] = []
    try:
        chip = chip_named(arguments.board)
        folder: Path = arguments.folder or FOLDER / chip.name
        steps = [check_files, check_circuit, *([check_tools, check_rebuild] if arguments.rebuild else [])]
        for step in steps:
            findings += step(folder, chip)
    except (BitlaneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rows = [[each.what, "equal" if each.equal else "differs", each.meaning] for each in findings]
    print(align_columns([["compared", "result", "meaning"], *rows], left=3))
    return int(any(each.needed and not each.equal for each in findings))


if __name__ == "__main__":
    sys.exit(main())
