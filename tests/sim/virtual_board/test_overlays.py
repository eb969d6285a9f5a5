"""Bitstreams that come with the package, as pynq and the driver find them."""

from __future__ import annotations

import importlib
import json
import lzma
import sys
from pathlib import Path

import pynq
import pytest

from bitlane import overlays
from bitlane.contract.registers import IDENTITY
from bitlane.devices.pynq.board import open_board
from bitlane.errors import DeviceError
from bitlane_sim.virtual_board.board import SimulatedBoard
from bitlane_sim.virtual_board.boards import BoardKind

pytestmark = pytest.mark.pynq


@pytest.fixture
def package(kind: BoardKind, bit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings this bitstream."""
    monkeypatch.setattr(overlays, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    monkeypatch.delitem(sys.modules, "bitlane.overlays.for_pynq", raising=False)
    folder = tmp_path / "a board"
    folder.mkdir()
    (folder / "bitlane.bit.xz").write_bytes(lzma.compress(bit.read_bytes()))
    (folder / "board.hwh").write_bytes(bit.with_suffix(".hwh").read_bytes())
    facts = {"boards": {"board": kind.name}, "clock_mhz": 100, "configuration": {"width": kind.config.width}}
    (folder / "manifest.json").write_text(json.dumps(facts))
    bit.unlink()
    bit.with_suffix(".hwh").unlink()


def test_the_driver_finds_it(package: None, board: SimulatedBoard) -> None:
    assert open_board().read(0) == IDENTITY


def test_pynq_finds_it(package: None, board: SimulatedBoard) -> None:
    """By the entry points alone: the overlay, and the driver that binds to it."""
    overlay = pynq.Overlay("bitlane.bit")
    assert type(overlay.bitlane_0).__name__ == "BitlaneIP"


def test_entry_points_can_be_imported() -> None:
    for module in ("bitlane.devices.pynq.ip", "bitlane.overlays.for_pynq"):
        importlib.import_module(module)


def test_no_bitstream_for_a_board(package: None, board: SimulatedBoard) -> None:
    board.name = "Nobody's"
    with pytest.raises(DeviceError, match=r"no bitstream for the board Nobody's \(for: .+\): build one"):
        open_board()
