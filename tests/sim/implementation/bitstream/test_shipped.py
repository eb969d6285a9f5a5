"""The bitstreams in the package are complete, and contain the accelerator of these sources."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path

import pytest

from bitlane import overlays
from bitlane_hw.zynq.top import Zynq
from bitlane_sim.implementation.bitstream.boards import BOARDS
from bitlane_sim.implementation.bitstream.design_digest import design_digest

SHIPPED = sorted(overlays.FOLDER.glob("*/manifest.json"))


def test_the_package_has_one_bitstream() -> None:
    assert [path.parent.name for path in SHIPPED] == ["pynq-z2"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_files_and_clock_match_the_manifest(path: Path) -> None:
    """Files, clock and board match, and the timing meets the clock."""
    manifest = json.loads(path.read_text())
    board = BOARDS[path.parent.name]
    files = {name: (path.parent / name).read_bytes() for name in ("bitlane.bit.xz", "bitlane.hwh")}
    files["bitlane.bit"] = lzma.decompress(files["bitlane.bit.xz"])
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == manifest["sha256"]
    assert (manifest["board"], manifest["pynq_board"], manifest["part"]) == (board.name, board.pynq_name, board.part)
    assert manifest["clock_mhz"] == board.clock_mhz <= manifest["fmax_mhz"]
    assert manifest["timing"]["hold_violations"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_the_rtl_matches_the_manifest(path: Path) -> None:
    """The sources make the same design, except for names and the build number."""
    board = BOARDS[path.parent.name]
    assert design_digest(Zynq(board.config(), build=0)) == json.loads(path.read_text())["rtl"]
