"""The bitstreams that the package brings: found by board, unpacked once, under names that tell their contents apart."""

from __future__ import annotations

import json
import lzma
import struct
from pathlib import Path

import pytest

from bitlane import overlays
from bitlane.errors import DeviceError
from bitlane.overlays.bit_header import START, with_board

BOARDS = {"board-y": "Board-Y", "board-z": "Board-Z"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a package with a bitstream for two boards."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BITLANE_OVERLAYS", raising=False)
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    monkeypatch.setattr(overlays, "NAME_FILES", (tmp_path / "no such file",))
    bring(tmp_path, b"bits")
    return tmp_path


def bit(content: bytes) -> bytes:
    """Return a .bit file with this configuration."""
    texts = b"".join(letter + struct.pack(">H", 2) + b"x\0" for letter in (b"a", b"b", b"c", b"d"))
    return START + texts + b"e" + struct.pack(">I", len(content)) + content


def bring(folder: Path, content: bytes) -> None:
    home = folder / "a chip"
    home.mkdir(exist_ok=True)
    (home / "bitlane.bit.xz").write_bytes(lzma.compress(bit(content)))
    for name, board in BOARDS.items():
        (home / f"{name}.hwh").write_text(f"handoff of {board}, {content.decode()}")
    facts = {"boards": BOARDS, "clock_mhz": 99.0, "configuration": {"width": 128}}
    (home / "manifest.json").write_text(json.dumps(facts))


def test_a_board_gets_its_bitstream(folder: Path) -> None:
    """Each board has a file of its own: pynq keeps handoffs by the hash of the .bit."""
    for board in BOARDS.values():
        found = overlays.overlay_for(board)
        assert found.name.endswith(f".{board}.bit")
        assert found.read_bytes() == with_board(bit(b"bits"), board)
        assert found.with_suffix(".hwh").read_text() == f"handoff of {board}, bits"
    assert [(each.clock_mhz, each.width) for each in overlays.overlays().values()] == [(99.0, 128)] * 2


def test_bitstreams_do_not_mix(folder: Path) -> None:
    """pynq knows a bitstream by its name: other contents have another one."""
    before = overlays.overlay_for("Board-Z")
    bring(folder, b"other bits")
    after = overlays.overlay_for("Board-Z")
    assert after != before
    assert before.read_bytes() == with_board(bit(b"bits"), "Board-Z")
    assert after.read_bytes() == with_board(bit(b"other bits"), "Board-Z")


def test_where_pynq_looks(folder: Path) -> None:
    """`bitlane.bit.d/bitlane.BOARD.bit`, which pynq resolves by the board's name."""
    place = overlays.unpack_for_pynq() / "bitlane.bit.d"
    assert sorted(file.name for file in place.iterdir()) == [
        f"bitlane.{board}.{kind}" for board in ("Board-Y", "Board-Z") for kind in ("bit", "hwh")
    ]
    assert (place / "bitlane.Board-Z.bit").read_bytes() == with_board(bit(b"bits"), "Board-Z")
    assert (place / "bitlane.Board-Z.hwh").read_text() == "handoff of Board-Z, bits"
    bring(folder, b"other bits")
    overlays.unpack_for_pynq()
    assert (place / "bitlane.Board-Z.bit").read_bytes() == with_board(bit(b"other bits"), "Board-Z")


def test_a_board_unpacks_its_own_files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / "pynq_board"
    name.write_bytes(b"Board-Y\0")
    monkeypatch.setattr(overlays, "NAME_FILES", (name,))
    assert overlays.this_board() == "Board-Y"
    place = overlays.unpack_for_pynq() / "bitlane.bit.d"
    assert sorted(file.name for file in place.iterdir()) == ["bitlane.Board-Y.bit", "bitlane.Board-Y.hwh"]


@pytest.mark.parametrize(
    ("tree", "xrt", "board"),
    [
        (b"Board-Y\0", b"other\n", "Board-Y"),
        (b"Unknown\0", b"Board-Z\n", "Board-Z"),
        (None, b"Board-Z\n", "Board-Z"),
        (b"Unknown\0", None, None),
        (None, b"\n", None),
    ],
)
def test_the_name_of_this_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: bytes | None, xrt: bytes | None, board: str | None
) -> None:
    """The device tree of a PYNQ image has it, or XRT's file."""
    files = tmp_path / "pynq_board", tmp_path / "xocl.txt"
    for file, content in zip(files, (tree, xrt), strict=True):
        if content is not None:
            file.write_bytes(content)
    monkeypatch.setattr(overlays, "NAME_FILES", files)
    assert overlays.this_board() == board


def test_ones_own_bitstreams(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    bring(mine, b"mine")
    monkeypatch.setenv("BITLANE_OVERLAYS", str(mine))
    assert overlays.overlay_for("Board-Z").read_bytes() == with_board(bit(b"mine"), "Board-Z")


def test_an_unknown_board(folder: Path) -> None:
    with pytest.raises(
        DeviceError, match=r"no bitstream for the board Toaster \(for: Board-Y, Board-Z\): build one .*BITLANE_OVERLAYS"
    ):
        overlays.overlay_for("Toaster")
    assert not (folder / "cache").exists()
