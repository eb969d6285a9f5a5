"""The bitstreams that the package brings: found by board, unpacked once, under names that tell builds apart."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from bitlane import overlays
from bitlane.errors import DeviceError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a package with a bitstream for one board."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    bring(tmp_path, 0x1234ABCD, b"bits")
    return tmp_path


def bring(folder: Path, build: int, content: bytes) -> None:
    home = folder / "board-z"
    home.mkdir(exist_ok=True)
    (home / "bitlane.bit.xz").write_bytes(lzma.compress(content))
    (home / "bitlane.hwh").write_text(f"handoff of {build:x}")
    (home / "manifest.json").write_text(json.dumps({"pynq_board": "Board-Z", "build": f"0x{build:08X}"}))


def test_a_board_gets_its_bitstream(folder: Path) -> None:
    bit = overlays.overlay_for("Board-Z")
    assert bit.name == "bitlane_1234abcd.Board-Z.bit"
    assert bit.read_bytes() == b"bits"
    assert bit.with_suffix(".hwh").read_text() == "handoff of 1234abcd"


def test_builds_do_not_mix(folder: Path) -> None:
    """pynq knows a bitstream by its name: another build has another one."""
    before = overlays.overlay_for("Board-Z")
    bring(folder, 0xFFFF0000, b"other bits")
    after = overlays.overlay_for("Board-Z")
    assert after != before
    assert (before.read_bytes(), after.read_bytes()) == (b"bits", b"other bits")


def test_where_pynq_looks(folder: Path) -> None:
    """`bitlane.bit.d/bitlane.BOARD.bit`, which pynq resolves by the board's name."""
    place = overlays.unpack_for_pynq() / "bitlane.bit.d"
    assert (place / "bitlane.Board-Z.bit").read_bytes() == b"bits"
    assert (place / "bitlane.Board-Z.hwh").read_text() == "handoff of 1234abcd"
    bring(folder, 0xFFFF0000, b"other bits")
    overlays.unpack_for_pynq()
    assert (place / "bitlane.Board-Z.bit").read_bytes() == b"other bits"


def test_ones_own_bitstreams(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    bring(mine, 0x7777, b"mine")
    monkeypatch.setenv("BITLANE_OVERLAYS", str(mine))
    assert overlays.overlay_for("Board-Z").read_bytes() == b"mine"


def test_an_unknown_board(folder: Path) -> None:
    with pytest.raises(
        DeviceError, match=r"no bitstream for the board Toaster \(for: Board-Z\): build one .*BITLANE_OVERLAYS"
    ):
        overlays.overlay_for("Toaster")
    assert not (folder / "cache").exists()
