"""The steps of the board's guide, typed as they stand, on a simulated board."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from pynq._cli import get_notebooks
from tests.helpers.pages import Block, blocks, run_python
from tests.helpers.places import ROOT

from bitlane.cli.main import main
from bitlane.devices.pynq import board as boards
from bitlane.selftest import speed
from bitlane_sim.virtual_board.board import SimulatedBoard

pytestmark = pytest.mark.pynq

FIRST_SUCCESS = ROOT / "docs" / "guides" / "board.md"
OVER_THE_NETWORK = "pynq://192.168.2.99"
JUPYTER = "/home/xilinx/jupyter_notebooks"


def typed(line: str, folder: Path) -> None:
    """Run a line of a shell block, in this process: the simulated board is in it."""
    words = shlex.split(line.replace(JUPYTER, str(folder)), comments=True)
    if words[:2] == ["pynq", "get-notebooks"]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words[1:])
            get_notebooks.main()
    else:
        assert words[0] == "bitlane" and main(words[1:]) == 0, line


def outcome(block: Block, folder: Path, space: dict[str, Any]) -> str:
    """Return what a block prints."""
    if block.language == "python":
        return run_python(block, space)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for line in block.text.splitlines():
            typed(line, folder)
    return out.getvalue()


def test_the_steps_of_the_guide(
    board: SimulatedBoard, bit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those that log in, copy and install; each prints what the guide shows, with `...` for what varies."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boards, "overlay_for", lambda name: bit)
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)
    space: dict[str, Any] = {"__name__": "__main__"}
    steps, shown, printed = 0, 0, ""
    for block in blocks(FIRST_SUCCESS):
        if block.mark == "board" and OVER_THE_NETWORK not in block.text and "virtual_board" not in block.text:
            printed, steps = outcome(block, tmp_path, space), steps + 1
        elif block.language == "text":
            expected = re.escape(block.text.strip()).replace(r"\.\.\.", ".+")
            assert re.search(expected, printed), printed
            shown += 1
    assert (steps, shown) == (5, 3)
    assert (tmp_path / "report.txt").is_file() and (tmp_path / "bitlane" / "training.ipynb").is_file()
    assert board.live_buffers == 0
