"""`bitlane devices` says which boards have an overlay, and what to do on a board without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.places import ROOT

from bitlane import overlays
from bitlane.cli import devices


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the name of the board, which no machine has at first."""
    name = tmp_path / "pynq_board"
    monkeypatch.setattr(overlays, "NAME_FILES", (name,))
    monkeypatch.delenv(overlays.VARIABLE, raising=False)
    return name


def test_the_boards_of_the_package(board: Path) -> None:
    _, _, *table, last = devices.board_lines()
    rows = [line.split(maxsplit=5) for line in table[:3]]
    assert sorted(row[0] for row in rows) == ["Arty-Z7-20", "Pynq-Z1", "Pynq-Z2"]
    assert all(row[1:] == ["128", "bits", "at", "100", "MHz  in the package"] for row in rows)
    assert [line.split(maxsplit=2) for line in table[3:]] == [
        ["ZCU104", "none", "Vivado recipe bitstreams/zcu104, untested"],
        ["KV260", "none", "Vivado recipe bitstreams/kv260, untested"],
    ]
    assert last.startswith("Another board has no overlay: build one (bitstreams/README.md)")


def test_every_recipe_exists() -> None:
    assert all((ROOT / "bitstreams" / name.lower() / "build.tcl").is_file() for name in overlays.RECIPES)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (b"Pynq-Z1\0", "This board is Pynq-Z1: device 'pynq' loads its overlay."),
        (
            b"Ultra96",
            "This board is Ultra96, and there is no overlay for it: build one (bitstreams/README.md), and set ",
        ),
    ],
)
def test_on_a_board(board: Path, name: bytes, line: str) -> None:
    board.write_bytes(name)
    assert devices.board_lines()[-1].startswith(line)


def test_overlays_of_ones_own(board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(overlays.VARIABLE, str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.json").write_text(
        '{"boards": {"kv260": "KV260"}, "clock_mhz": 150.0, "configuration": {"width": 128}}'
    )
    _, _, mine, other, _ = devices.board_lines()
    assert mine.split(maxsplit=1) == ["KV260", f"128 bits at 150 MHz  in {tmp_path} (BITLANE_OVERLAYS)"]
    assert other.startswith("ZCU104")
